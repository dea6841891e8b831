// Tiles as pixels: each filled from below by pods and placeholders, crossed where nothing can start. No elements here.
// Placeholders are striped; where their capacity is free, the stripes are on the colour of what is free.
// Written straight into memory, for ten thousand tiles as paths would hold the page up for a tenth of a second.

const STRIPE = 6;

/** `rgb` or `#rrggbb` as one pixel, opaque, in the byte order of little-endian machines. */
export function pixel(colour) {
  const value = parseInt(colour.trim().slice(1), 16);
  return (255 << 24 | (value & 255) << 16 | (value >> 8 & 255) << 8 | value >> 16) >>> 0;
}

/** Where tiles stand: `columns` in a row, `pitch` apart, each `tile` wide, all in points of the page. */
export function layoutOf(total, width, tile) {
  const gap = tile > 20 ? 4 : tile > 10 ? 2 : 1;
  const pitch = tile + gap;
  const columns = Math.max(1, Math.floor((Math.max(pitch, width) + gap) / pitch));
  return { tile, pitch, columns, rows: Math.ceil(total / columns) };
}

/**
 * Fills `out`, `stride` pixels wide, with the tiles of `nodes` (rows of the columns in `shares`); `crossed(node)` says
 * where nothing can start, `paint` has the pixels, `scale` is how many pixels a point is. With `bars` the right quarter
 * of a tile is a bar of what is really used: grey where that is old, nothing where it was never known.
 */
export function drawTiles(out, stride, nodes, { tile, pitch, columns }, shares, crossed, paint, scale, bars = null) {
  const size = Math.max(1, Math.round(tile * scale));
  const bar = bars === null ? 0 : Math.max(2, Math.round(size / 4));
  const body = bar ? size - bar - Math.max(1, Math.round(scale)) : size;
  const striped = tile > 10;
  const stripe = Math.max(3, Math.round(STRIPE * scale));
  const line = Math.max(1, (tile / 16) * scale) * 0.71;
  for (let index = 0; index < nodes.length; index += 1) {
    const node = nodes[index];
    const left = Math.round((index % columns) * pitch * scale);
    const top = Math.round(Math.floor(index / columns) * pitch * scale);
    const pods = Math.round(shares.pods[node] * size);
    const slack = shares.slack[node] > 0 ? Math.min(size - pods, Math.max(1, Math.round(shares.slack[node] * size))) : 0;
    const kept = shares.slack[node] > 0 ? Math.round(slack * (shares.kept[node] / shares.slack[node])) : 0;
    for (let y = 0; y < size; y += 1) {
      const from = (top + y) * stride + left;
      const height = size - y;
      if (height <= pods) out.fill(paint.pods, from, from + body);
      else if (height > pods + slack) out.fill(paint.free, from, from + body);
      else if (!striped) out.fill(paint.slack, from, from + body);
      else {
        const [on, ground] = height > pods + slack - kept ? [paint.slack, paint.free] : [paint["slack-deep"], paint.slack];
        for (let x = 0; x < body; x += 1) out[from + x] = (left + x + top + y) % stripe < stripe / 4 ? on : ground;
      }
    }
    if (bar && bars.height[node] >= 0) drawBar(out, stride, left + size - bar, top, size, bar, bars.height[node], bars.fresh[node] ? paint.load : paint.away, paint.free);
    if (crossed(node)) cross(out, stride, left, top, size, line, paint.away);
  }
}

function drawBar(out, stride, left, top, size, width, share, colour, free) {
  const filled = share > 0 ? Math.max(1, Math.round(share * size)) : 0;
  for (let y = 0; y < size; y += 1) {
    const from = (top + y) * stride + left;
    out.fill(size - y <= filled ? colour : free, from, from + width);
  }
}

function cross(out, stride, left, top, size, line, colour) {
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      if (Math.abs(x - y) <= line || Math.abs(x + y - size + 1) <= line) out[(top + y) * stride + left + x] = colour;
    }
  }
}
