import { expect, test } from 'vitest';
import { byteTicks, bytes, driverTitle, duration, offset, percent, signedBytes, timeTicks } from '../src/format';

const plain = (text: string) => text.replaceAll('\u00a0', ' ');

test.each([
  [0, '0 B'], [1, '1 B'], [999, '999 B'], [1000, '0.977 KiB'], [1024, '1.00 KiB'], [38912, '38.0 KiB'], [1536, '1.50 KiB'],
  [1023 * 1024, '0.999 MiB'], [2 ** 20, '1.00 MiB'], [65712345678, '61.2 GiB'], [-2048, '−2.00 KiB'], [2 ** 40, '1.00 TiB'], [999 * 2 ** 30, '999 GiB'],
])('%i bytes are %s', (value, text) => expect(plain(bytes(value))).toBe(text));

test('an old answer of the driver says how old it is', () => {
  expect(plain(driverTitle(5e9, 5e9))).toBe('In use, says the driver');
  expect(plain(driverTitle(5e9, 7.5e9))).toBe('In use, said the driver 2.50 s before');
  expect(plain(driverTitle(5e9, 4.75e9))).toBe('In use, said the driver 250 ms after');
});

test('a gain carries its sign', () => {
  expect(plain(signedBytes(1024))).toBe('+1.00 KiB');
  expect(plain(signedBytes(-1024))).toBe('−1.00 KiB');
});

test.each([
  [0, '0 s'], [0.0000265, '26.5 µs'], [0.25, '250 ms'], [2.5, '2.50 s'], [59.94, '59.9 s'], [60, '1 min'], [77, '1 min 17 s'], [22200, '6 h 10 min'],
  [3599.9, '1 h'], [86400 * 3 + 7200, '3 d 2 h'], [86399, '1 d'],
])('%f seconds are %s', (value, text) => expect(plain(duration(value))).toBe(text));

test.each([[0, 5, '0 %'], [1, 3000, '< 0.1 %'], [1, 100, '1.0 %'], [41, 100, '41 %'], [5, 0, '0 %']])('%i of %i is %s', (part, whole, text) => expect(plain(percent(part, whole))).toBe(text));

test('offsets are as fine as what is in view', () => {
  expect(offset(65e9, 600e9)).toBe('+1:05');
  expect(plain(offset(1.2345e9, 0.5e9))).toBe('+1.2345 s');
  expect(offset(3725e9, 7200e9)).toBe('+1:02:05');
});

test('ticks are round and few', () => {
  expect(byteTicks(24 * 2 ** 30).map((tick) => plain(bytes(tick)))).toEqual(['0 B', '8.00 GiB', '16.0 GiB', '24.0 GiB']);
  expect(timeTicks(0, 77e9, 8).map((tick) => tick / 1e9)).toEqual([0, 10, 20, 30, 40, 50, 60, 70]);
  expect(timeTicks(5e6, 6e6, 8).length).toBeGreaterThan(2);
  expect(timeTicks(5, 5)).toEqual([]);
});
