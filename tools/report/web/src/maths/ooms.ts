// The order in which out-of-memories are told: the one that ended the run first, what recovered last; the latest first.
import type { Oom } from '../head';

export function worstFirst<T extends Pick<Oom, 'class' | 'at_ns'>>(ooms: T[]): T[] {
  const recovered = (oom: T) => (oom.class === 'recovered' ? 1 : 0);
  return [...ooms].sort((a, b) => recovered(a) - recovered(b) || b.at_ns - a.at_ns);
}
