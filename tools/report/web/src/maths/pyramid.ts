// A min/max pyramid: the extremes of any range of a series in logarithmic time, so that a peak of one moment is drawn at
// every zoom.

export class Pyramid {
  private readonly highs: Float64Array[];
  private readonly lows: Float64Array[];

  constructor(readonly high: Float64Array, readonly low: Float64Array) {
    this.highs = [high];
    this.lows = [low];
    while (this.highs.at(-1)!.length > 1) {
      this.highs.push(halved(this.highs.at(-1)!, Math.max));
      this.lows.push(halved(this.lows.at(-1)!, Math.min));
    }
  }

  /// Largest value in [from, to).
  max(from: number, to: number): number {
    return this.fold(this.highs, from, to, -Infinity, Math.max);
  }

  /// Smallest value in [from, to).
  min(from: number, to: number): number {
    return this.fold(this.lows, from, to, Infinity, Math.min);
  }

  /// Position of the largest value in [from, to); the first one where several are equal.
  argmax(from: number, to: number): number {
    const most = this.max(from, to);
    return this.find(this.highs.length - 1, 0, from, to, most);
  }

  private fold(levels: Float64Array[], from: number, to: number, start: number, better: (a: number, b: number) => number): number {
    let result = start;
    let low = Math.max(0, from);
    let high = Math.min(levels[0]!.length, to);
    for (let level = 0; low < high; level += 1) {
      const values = levels[level]!;
      if (low & 1) result = better(result, values[low++]!);
      if (high & 1) result = better(result, values[--high]!);
      low >>= 1;
      high >>= 1;
    }
    return result;
  }

  private find(level: number, index: number, from: number, to: number, wanted: number): number {
    const first = index * 2 ** level;
    if (first >= to || first + 2 ** level <= from) return -1;
    if (this.highs[level]![index]! < wanted) return -1;
    if (level === 0) return index;
    for (const child of [2 * index, 2 * index + 1]) {
      if (child >= this.highs[level - 1]!.length) continue;
      const found = this.find(level - 1, child, from, to, wanted);
      if (found >= 0) return found;
    }
    return -1;
  }
}

function halved(values: Float64Array, better: (a: number, b: number) => number): Float64Array {
  const half = new Float64Array((values.length + 1) >> 1);
  for (let i = 0; i < half.length; i += 1) {
    const left = values[2 * i]!;
    half[i] = 2 * i + 1 < values.length ? better(left, values[2 * i + 1]!) : left;
  }
  return half;
}

/// First position whose value is greater than `wanted` (values do not fall).
export function upperBound(values: ArrayLike<number>, wanted: number, from = 0, to = values.length): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
