// Unpacks the sections that tools/report/columns.cpp wrote; the codes are described in columns.h.

export interface ColumnDescription {
  name: string;
  code: 'uint' | 'delta' | 'text';
  offset: number;
  count: number;
}
export interface SectionDescription {
  bytes: number;
  columns: ColumnDescription[];
}

export class Section {
  private readonly numbers = new Map<string, Float64Array>();
  private readonly texts = new Map<string, string[]>();

  constructor(bytes: Uint8Array, description: SectionDescription) {
    for (const column of description.columns) {
      if (column.code === 'text') this.texts.set(column.name, decodeText(bytes, column));
      else this.numbers.set(column.name, decodeNumbers(bytes, column));
    }
  }

  column(name: string): Float64Array {
    const column = this.numbers.get(name);
    if (!column) throw new Error(`the report lacks the column ${name}`);
    return column;
  }

  text(name: string): string[] {
    const column = this.texts.get(name);
    if (!column) throw new Error(`the report lacks the texts ${name}`);
    return column;
  }
}

function decodeNumbers(bytes: Uint8Array, { code, offset, count, name }: ColumnDescription): Float64Array {
  const values = new Float64Array(count);
  let at = offset;
  let previous = 0;
  for (let i = 0; i < count; i += 1) {
    let value = 0;
    let scale = 1;
    let byte: number;
    do {
      if (at >= bytes.length) throw new Error(`the report is damaged in column ${name}`);
      byte = bytes[at]!;
      at += 1;
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    if (code === 'delta') {
      // Zigzag without bit operators: they would cut to 32 bits.
      previous += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      values[i] = previous;
    } else values[i] = value;
  }
  return values;
}

function decodeText(bytes: Uint8Array, { offset, count }: ColumnDescription): string[] {
  const decoder = new TextDecoder();
  const texts: string[] = [];
  let from = offset;
  for (let i = 0; i < count; i += 1) {
    const to = bytes.indexOf(0, from);
    texts.push(decoder.decode(bytes.subarray(from, to)));
    from = to + 1;
  }
  return texts;
}

function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function unpack(base64: string, description: SectionDescription): Promise<Section> {
  const packed = fromBase64(base64.trim());
  const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (bytes.length !== description.bytes) throw new Error('the report is damaged: a section has the wrong length');
  return new Section(bytes, description);
}
