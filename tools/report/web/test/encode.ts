// The writing side of the columns, for tests: as tools/report/columns.cpp does it.
import { deflateSync } from 'node:zlib';
import { Section, type ColumnDescription, type SectionDescription } from '../src/columns';

export type Given = Record<string, { uint: number[] } | { delta: number[] } | { text: string[] }>;

function leb128(value: number, out: number[]): void {
  let rest = BigInt(value);
  do {
    const byte = Number(rest & 0x7fn);
    rest >>= 7n;
    out.push(rest > 0n ? byte | 0x80 : byte);
  } while (rest > 0n);
}

export function encode(given: Given): { bytes: Uint8Array; description: SectionDescription } {
  const out: number[] = [];
  const columns: ColumnDescription[] = [];
  for (const [name, column] of Object.entries(given)) {
    const offset = out.length;
    if ('text' in column) {
      for (const text of column.text) out.push(...new TextEncoder().encode(text), 0);
      columns.push({ name, code: 'text', offset, count: column.text.length });
    } else if ('delta' in column) {
      let previous = 0;
      for (const value of column.delta) {
        const step = value - previous;
        leb128(step >= 0 ? step * 2 : -step * 2 - 1, out);
        previous = value;
      }
      columns.push({ name, code: 'delta', offset, count: column.delta.length });
    } else {
      for (const value of column.uint) leb128(value, out);
      columns.push({ name, code: 'uint', offset, count: column.uint.length });
    }
  }
  return { bytes: Uint8Array.from(out), description: { bytes: out.length, columns } };
}

export function section(given: Given): Section {
  const { bytes, description } = encode(given);
  return new Section(bytes, description);
}

export function packed(given: Given): { base64: string; description: SectionDescription } {
  const { bytes, description } = encode(given);
  return { base64: deflateSync(bytes).toString('base64'), description };
}

/// Names of a small tree: each stack outermost first; `kind` by function name; every stack is named by its innermost frame,
/// with `callers` behind it, and the place of all is `place`.
export function namesSection(stacks: string[][], kinds: Record<string, number> = {}, callers = '', place = ''): { names: Section; nodes: number[] } {
  const functions = [...new Set(stacks.flat())];
  const parent = [0];
  const frame = [0];
  const nodes = stacks.map((stack) => {
    let at = 0;
    for (const name of stack) {
      const wanted = functions.indexOf(name);
      let next = parent.findIndex((p, node) => node > 0 && p === at && frame[node] === wanted);
      if (next < 0) {
        next = parent.length;
        parent.push(at);
        frame.push(wanted);
      }
      at = next;
    }
    return at;
  });
  const zeros = functions.map(() => functions.length);
  return {
    nodes,
    names: section({
      string: { text: [...functions, '', place] },
      function: { uint: functions.map((_, i) => i) },
      file: { uint: zeros }, line: { uint: functions.map(() => 0) }, module: { uint: zeros },
      kind: { uint: functions.map((name) => kinds[name] ?? 0) },
      bare: { uint: functions.map((_, i) => i) }, place: { uint: functions.map(() => functions.length + 1) },
      parent: { delta: parent }, frame: { uint: frame },
      own_back: { uint: parent.map(() => 0) },
callers: { uint: parent.map((_, node) => (node > 0 ? 1 : 0)) }, caller_text: { text: ['', callers] },
    }),
  };
}
