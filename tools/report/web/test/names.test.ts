import { expect, test } from 'vitest';
import { Names } from '../src/names';
import { namesSection } from './encode';

test('a site is called by what was written for it', () => {
  const { names, nodes } = namesSection([['main', 'serve']], {}, '', 'a.cpp:7');
  const read = new Names(names);
  expect(read.siteName(nodes[0]!)).toEqual({ name: 'serve', place: 'a.cpp:7' });
  expect(read.siteName(0)).toEqual({ name: 'no stack', place: '' });
  expect(read.ownFrame(0)).toBe(-1);
});

test('the callers that tell a site apart are a part of its name', () => {
  const { names, nodes } = namesSection([['main', 'fw_resize']], {}, ', called by main (p)', 'p');
  const read = new Names(names);
  expect(read.siteName(nodes[0]!)).toEqual({ name: 'fw_resize', place: 'p, called by main (p)' });
  expect(read.title(nodes[0]!)).toBe('fw_resize (p), called by main (p)');
});
