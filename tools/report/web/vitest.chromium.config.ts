import { defineConfig } from 'vitest/config';

// One browser, one page after the other: two would fight for the same cores.
export default defineConfig({
  test: { include: ['test/chromium/*.test.ts'], environment: 'node', fileParallelism: false, testTimeout: 60000, hookTimeout: 240000, cache: false },
});
