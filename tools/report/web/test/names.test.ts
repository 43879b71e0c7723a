import { expect, test } from 'vitest';
import { Names } from '../src/names';
import { namesSection } from './encode';

test('a stack is named by its best frame, the innermost of those', () => {
  const { names, nodes } = namesSection([['main', 'serve', 'remember', 'cudaMalloc']], {}, { main: 0, serve: 0, remember: 1, cudaMalloc: 5 });
  expect(new Names(names).siteName(nodes[0]!).name).toBe('serve');
});

test('a stack that is plumbing all through is named by what is nearest, but not libc, with its library', () => {
  const { names, nodes } = namesSection([['start_thread', 'at::to', 'at::native::copy', 'c10::malloc', 'cuMemAlloc_v2', 'hook']], {},
    { start_thread: 6, 'at::to': 4, 'at::native::copy': 4, 'c10::malloc': 5, cuMemAlloc_v2: 5, hook: 6 }, '/usr/lib/libtorch_cuda.so');
  expect(new Names(names).siteName(nodes[0]!)).toEqual({ name: 'at::native::copy', place: 'libtorch_cuda.so' });
});

test('an allocator names a stack of which nothing else is left', () => {
  const { names, nodes } = namesSection([['start_thread', 'c10::malloc', 'hook']], {}, { start_thread: 6, 'c10::malloc': 5, hook: 6 });
  const read = new Names(names);
  expect(read.siteName(nodes[0]!).name).toBe('c10::malloc');
  expect(read.siteName(0)).toEqual({ name: 'no stack', place: '' });
});
