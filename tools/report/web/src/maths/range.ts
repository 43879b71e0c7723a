// The stretch of time that the timeline shows at first: the program at work. A recording may be idle, or tidy up, for most of
// its length after the last request.
import type { Head } from '../head';

const kBehind = 1.05;

export function firstRange(head: Pick<Head, 'last_request_ns'>, duration: number): [number, number] {
  const end = head.last_request_ns * kBehind;
  return end > 0 && end < duration ? [0, end] : [0, duration];
}
