// Numbers as people read them: binary units with three significant digits, durations in words.

/// Between a number and its unit: no line may break there.
const kTie = '\u00a0';

const kUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function significant(value: number, digits = 3): string {
  if (value === 0) return '0';
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, digits - 1 - magnitude));
}

export function bytes(value: number): string {
  const sign = value < 0 ? '−' : '';
  let size = Math.abs(value);
  let unit = 0;
  // 1023.5 of a unit would print as 1024: the next unit takes over before.
  while (unit < kUnits.length - 1 && size >= 999.5) {
    size /= 1024;
    unit += 1;
  }
  return `${sign}${unit === 0 ? String(Math.round(size)) : significant(size)}${kTie}${kUnits[unit]}`;
}

export function signedBytes(value: number): string {
  return value > 0 ? `+${bytes(value)}` : bytes(value);
}

const kGroups = new Intl.NumberFormat('en-US');

export function exactBytes(value: number): string {
  return `${kGroups.format(value)} bytes`;
}

export function count(value: number): string {
  return kGroups.format(value).replaceAll(',', '\u202f');
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return `0${kTie}%`;
  const share = (100 * part) / whole;
  if (share > 0 && share < 0.1) return `<${kTie}0.1${kTie}%`;
  return `${share >= 10 || share === 0 ? Math.round(share) : share.toFixed(1)}${kTie}%`;
}

/// The two largest units that are not zero.
export function duration(seconds: number): string {
  const size = Math.abs(seconds);
  const sign = seconds < 0 ? '−' : '';
  if (size === 0) return `0${kTie}s`;
  if (size < 1e-6) return `${sign}${significant(size * 1e9)}${kTie}ns`;
  if (size < 1e-3) return `${sign}${significant(size * 1e6)}${kTie}µs`;
  if (size < 1) return `${sign}${significant(size * 1e3)}${kTie}ms`;
  if (size < 60) return `${sign}${significant(size)}${kTie}s`;
  const parts: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([unit]) => size >= unit);
  const [major, majorName] = parts[first]!;
  const next = parts[first + 1]!;
  const whole = Math.floor(size / major);
  const rest = Math.round((size - whole * major) / next[0]);
  if (rest * next[0] >= major) return `${sign}${duration((whole + 1) * major)}`;
  return `${sign}${whole}${kTie}${majorName}${rest > 0 ? `${kTie}${rest}${kTie}${next[1]}` : ''}`;
}

/// What a figure of the driver is called: it is asked only now and then, and an old answer must not pass for a new one.
export function driverTitle(askedNs: number, momentNs: number): string {
  const apart = momentNs - askedNs;
  if (apart === 0) return 'In use, says the driver';
  return `In use, said the driver ${duration(Math.abs(apart) / 1e9)} ${apart > 0 ? 'before' : 'after'}`;
}

/// Offset from the start, as fine as the span in view needs.
export function offset(ns: number, spanNs: number): string {
  const seconds = ns / 1e9;
  const span = spanNs / 1e9;
  if (span < 1) return `+${(seconds).toFixed(span < 0.001 ? 7 : span < 0.05 ? 5 : 4)}${kTie}s`;
  if (span < 120 && seconds < 120) return `+${seconds.toFixed(span < 10 ? 3 : 1)}${kTie}s`;
  const h = Math.floor(seconds / 3600);
  const m = Math.floor((seconds % 3600) / 60);
  const s = seconds % 60;
  const pad = (n: number, width = 2) => n.toString().padStart(width, '0');
  const fine = span < 10 ? s.toFixed(3).padStart(6, '0') : span < 600 ? s.toFixed(1).padStart(4, '0') : pad(Math.floor(s));
  return `+${h > 0 ? `${h}:${pad(m)}` : m}:${fine}`;
}

export function wallClock(epochMs: number, fine = false): string {
  if (epochMs <= 0) return '';
  const date = new Date(epochMs);
  const time = date.toLocaleTimeString('en-GB', { hour12: false });
  return fine ? `${time}.${date.getMilliseconds().toString().padStart(3, '0')}` : time;
}

export function wallDate(epochMs: number): string {
  return new Date(epochMs).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

/// Round steps for an axis of bytes: powers of two, halves and quarters of the next unit.
export function byteTicks(max: number, most = 5): number[] {
  if (!(max > 0)) return [0];
  let step = 2 ** Math.ceil(Math.log2(max / most));
  if (step < 1) step = 1;
  const ticks: number[] = [];
  for (let value = 0; value <= max; value += step) ticks.push(value);
  return ticks;
}

const kTimeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

export function timeTicks(fromNs: number, toNs: number, most = 8): number[] {
  const span = (toNs - fromNs) / 1e9;
  if (!(span > 0)) return [];
  let step = kTimeSteps.find((seconds) => span / seconds <= most);
  if (step === undefined) step = 86400 * Math.ceil(span / 86400 / most);
  if (span / step < 2) {
    const power = 10 ** Math.floor(Math.log10(span / most));
    step = [1, 2, 5, 10].map((n) => n * power).find((n) => span / n <= most) ?? power * 10;
  }
  const stepNs = step * 1e9;
  const ticks: number[] = [];
  for (let n = Math.ceil(fromNs / stepNs); n * stepNs <= toNs; n += 1) ticks.push(n * stepNs);
  return ticks;
}
