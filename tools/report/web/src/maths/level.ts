// A level: bytes over the moments. A moment holds until the next one; besides its value it knows the extremes since the
// moment before. So over a stretch of time the first moment counts with its value, those after it with their extremes.
import { Pyramid } from './pyramid';

export class Level {
  private readonly pyramid: Pyramid;

  constructor(readonly last: Float64Array, above: Float64Array, below: Float64Array) {
    this.pyramid = new Pyramid(last.map((value, i) => value + above[i]!), last.map((value, i) => value - below[i]!));
  }

  /// Most bytes from moment `from`, which holds at the begin, up to and with moment `to`.
  max(from: number, to: number): number {
    return Math.max(this.last[from]!, this.pyramid.max(from + 1, to + 1));
  }

  min(from: number, to: number): number {
    return Math.min(this.last[from]!, this.pyramid.min(from + 1, to + 1));
  }

  /// The moment at or before which the most bytes were held.
  argmax(from: number, to: number): number {
    const inner = this.pyramid.max(from + 1, to + 1);
    return this.last[from]! >= inner ? from : this.pyramid.argmax(from + 1, to + 1);
  }
}
