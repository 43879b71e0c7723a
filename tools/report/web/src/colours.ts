// Colours: Okabe-Ito, which colour-blind readers can tell apart; ink and paper come from the style sheet.

/// In the order in which categories take them.
export const kCategories = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442'];

/// By kind of frame, see names.ts: Python, C++, CUDA libraries, runtime.
export const kKindColours = ['#56b4e9', '#e69f00', '#009e73'];

export interface Palette {
  paper: string;
  ink: string;
  muted: string;
  faint: string;
  grid: string;
  accent: string;
  bad: string;
  other: string;
  runtime: string;
}

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: get('paper'), ink: get('ink'), muted: get('muted'), faint: get('faint'), grid: get('grid'),
    accent: get('accent'), bad: get('bad'), other: get('other'), runtime: get('runtime'),
  };
}

/// Black or white, whichever reads better on `colour` (#rrggbb).
export function inkOn(colour: string): string {
  const part = (from: number) => {
    const value = parseInt(colour.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return luminance > 0.179 ? '#000000' : '#ffffff';
}

export function withAlpha(colour: string, alpha: number): string {
  return `${colour}${Math.round(alpha * 255).toString(16).padStart(2, '0')}`;
}
