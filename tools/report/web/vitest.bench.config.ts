import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['test/chromium/*.bench.ts'], environment: 'node', testTimeout: 120000, hookTimeout: 120000, cache: false } });
