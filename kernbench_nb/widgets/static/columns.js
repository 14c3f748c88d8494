// From a head and a buffer to columns: widgets/README.md, "Columns".

const ARRAYS = {
  u1: Uint8Array,
  i1: Int8Array,
  u2: Uint16Array,
  i2: Int16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
  f2: Uint16Array,
};

/** {table: {n, column: typed array}}; differences are summed up, half floats become floats. */
export function columns(head, bytes) {
  if (head.schema !== 'kernbench-trace' || head.version !== 1) {
    throw new Error(
      `this page reads kernbench-trace version 1, the trace is ${head.schema} ${head.version}; ` +
        'save it again with the kernbench-nb that is installed',
    );
  }
  const buffer = aligned(bytes);
  const tables = {};
  for (const [name, { n, cols }] of Object.entries(head.tables)) {
    const table = (tables[name] = { n });
    for (const [column, spec] of Object.entries(cols)) table[column] = read(buffer, spec, n);
  }
  return tables;
}

/** An ArrayBuffer that starts where the trace starts; traits arrive as views into larger messages. */
function aligned(bytes) {
  if (bytes instanceof ArrayBuffer) return bytes;
  const { buffer, byteOffset, byteLength } = bytes;
  return byteOffset % 8 ? buffer.slice(byteOffset, byteOffset + byteLength) : { buffer, byteOffset };
}

function read(source, { t, o, d }, n) {
  const [buffer, offset] = source instanceof ArrayBuffer ? [source, 0] : [source.buffer, source.byteOffset];
  const values = new ARRAYS[t](buffer, offset + o, n);
  if (d) return running(values);
  return t === 'f2' ? floats(values) : values;
}

function running(differences) {
  const out = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < out.length; i++) out[i] = sum += differences[i];
  return out;
}

/** IEEE half floats, by a table of all 65 536 that is made when it is first needed. */
function floats(halves) {
  if (!table) {
    table = new Float32Array(65536);
    for (let i = 0; i < 65536; i++) table[i] = half(i);
  }
  return Float32Array.from(halves, bits => table[bits]);
}
let table = null;

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
}
