import { expect, test } from 'vitest';
import { Section, unpack } from '../src/columns';
import { encode, packed, section } from './encode';

test('numbers beyond 32 bits come back exactly', () => {
  const values = [0, 1, 127, 128, 2 ** 32, 2 ** 40 + 1, 2 ** 52 + 12345];
  expect([...section({ a: { uint: values } }).column('a')]).toEqual(values);
});

test('differences may be negative and large', () => {
  const values = [0, 2 ** 45, 3, 3, -7, -(2 ** 40), 2 ** 40];
  expect([...section({ a: { delta: values } }).column('a')]).toEqual(values);
});

test('columns of one section do not touch each other', () => {
  const made = section({ a: { uint: [300, 2] }, b: { text: ['', 'zwölf', 'c'] }, c: { delta: [9, 8] } });
  expect([...made.column('a')]).toEqual([300, 2]);
  expect(made.text('b')).toEqual(['', 'zwölf', 'c']);
  expect([...made.column('c')]).toEqual([9, 8]);
});

test('the encoder of these tests and the C++ one agree on bytes', () => {
  // tests/unit/report/columns_test.cpp states the same layout: three small numbers, four bytes; three differences.
  const { description } = encode({ small: { uint: [1, 127, 128] }, rising: { delta: [5, 7, 3] } });
  expect(description.bytes).toBe(7);
  expect(description.columns[1]!.offset).toBe(4);
});

test('a packed section unpacks', async () => {
  const { base64, description } = packed({ a: { uint: Array.from({ length: 5000 }, (_, i) => i * 977) } });
  const made = await unpack(base64, description);
  expect(made.column('a')[4999]).toBe(4999 * 977);
});

test('a column that ends too early is an error, not a number', () => {
  const { bytes, description } = encode({ a: { uint: [1, 2, 3] } });
  description.columns[0]!.count = 4;
  expect(() => new Section(bytes, description)).toThrow(/damaged in column a/);
});

test('a section of the wrong length is an error', async () => {
  const { base64, description } = packed({ a: { uint: [1, 2, 3] } });
  await expect(unpack(base64, { ...description, bytes: 4 })).rejects.toThrow(/wrong length/);
});
