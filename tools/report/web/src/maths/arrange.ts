// Where the segments of the address space lie on the page: one after the other by address, long ones over several rows.
import type { Segment } from './space';

const kGapX = 3;         // CSS pixels between segments
const kWantedRows = 28;  // about a screen

/// A stretch of a segment on a row; long segments run over several.
export interface Piece {
  segment: Segment;
  row: number;
  x: number;          // CSS pixels
  offset: number;     // bytes into the segment
  size: number;
}

/// Bytes per pixel so that the picture takes a screen at most, and where each segment lies.
export function arrange(segments: Segment[], width: number): { pieces: Piece[]; rows: number; perPixel: number } {
  const total = segments.reduce((sum, { size }) => sum + size, 0);
  const gaps = segments.length * kGapX;
  const perPixel = Math.max(1024, total / Math.max(width, kWantedRows * width - gaps));
  const pieces: Piece[] = [];
  let row = 0;
  let x = 0;
  for (const segment of segments) {
    let offset = 0;
    while (offset < segment.size) {
      if (width - x < 2) {
        row += 1;
        x = 0;
      }
      const size = Math.min(segment.size - offset, (width - x) * perPixel);
      pieces.push({ segment, row, x, offset, size });
      offset += size;
      x += size / perPixel;
    }
    x += kGapX;
  }
  return { pieces, rows: row + 1, perPixel };
}
