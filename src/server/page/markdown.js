/* markdown.js - text of a model as DOM nodes. Nothing a model writes is ever parsed as HTML: every node is made by name
 * and gets its words as text, links only lead to http, https and mailto, and images are links, so nothing is loaded.
 * Both halves take time linear in the text, and the depth of what they build is bounded. */

const MD_DEPTH = 6; /* of quotes and lists in each other */
const MD_INLINE = 20000; /* characters of a paragraph; a longer one is shown as it is */
const MD_ROWS = 400; /* of a table; the next rows make a table of their own */
const MD_COLUMNS = 64;
const MD_URL = 2048;
const MD_NESTED = 8; /* emphasis in emphasis */
const MD_SEARCH = 32; /* openers that a closer is compared with */

function el(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/* ---- blocks: [{type, from, to, ...}], lines from up to before to */

const md_blank = (line) => /^\s*$/.test(line);
const md_indent = (line) => line.length - line.trimStart().length;

function md_fence(line) {
  const found = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line);
  return found && !(found[1][0] === '`' && found[2].includes('`')) ? found : null;
}

function md_item(line) {
  const found = /^( {0,3})([-*+]|\d{1,9}[.)])(?=\s|$)/.exec(line);
  if (!found) return null;
  const rest = line.slice(found[0].length);
  const gap = md_blank(rest) ? 1 : Math.min(md_indent(rest), 5);
  const number = parseInt(found[2], 10);
  return { indent: found[1].length, mark: found[2].slice(-1), ordered: !Number.isNaN(number), number, width: found[0].length + (gap > 4 ? 1 : gap) };
}

const md_rule = (line) => /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/.test(line.trimEnd());
const md_heading = (line) => /^ {0,3}(#{1,6})(?=\s|$)/.exec(line);
const md_quote = (line) => /^ {0,3}>/.test(line);

function md_cells(line) {
  let text = line.trim();
  if (text.startsWith('|')) text = text.slice(1);
  const cells = [];
  let cell = '', code = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\' && text[i + 1] === '|') cell += text[++i];
    else if (text[i] === '|' && !code) { cells.push(cell.trim()); cell = ''; }
    else { if (text[i] === '`') code = !code; cell += text[i]; }
  }
  if (code && cells.length === 0) return line.includes('|') ? text.split('|').map((part) => part.trim()) : [text];
  if (cell.trim() || !text.endsWith('|')) cells.push(cell.trim());
  return cells;
}

/* The alignment of each column if these two lines start a table, else null. */
function md_table(head, rule) {
  if (rule === undefined || !head.includes('|') || !rule.includes('-') || !/^[\s|:-]+$/.test(rule)) return null;
  const cells = md_cells(rule);
  if (cells.length > MD_COLUMNS || cells.length !== md_cells(head).length) return null;
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : ''));
}

const md_starts = (line) => md_fence(line) || md_heading(line) || md_quote(line) || md_rule(line) || md_item(line);

function md_take_fence(lines, from) {
  const [, mark, info] = md_fence(lines[from]);
  const close = new RegExp('^ {0,3}' + (mark[0] === '`' ? '`' : '~') + '{' + mark.length + ',}\\s*$');
  const indent = md_indent(lines[from]);
  let to = from + 1;
  while (to < lines.length && !close.test(lines[to])) to++;
  const text = lines.slice(from + 1, to).map((line) => line.slice(Math.min(indent, md_indent(line))));
  return { type: 'code', language: info.trim().split(/\s/)[0].slice(0, 24), text: text.join('\n'), to: Math.min(to + 1, lines.length) };
}

function md_take_quote(lines, from) {
  let to = from;
  const inner = [];
  for (; to < lines.length; to++) {
    if (md_quote(lines[to])) inner.push(lines[to].replace(/^ {0,3}> ?/, ''));
    else if (md_blank(lines[to]) || md_starts(lines[to])) break;
    else inner.push(lines[to]); /* a paragraph that goes on without its mark */
  }
  return { type: 'quote', lines: inner, to };
}

function md_take_list(lines, from) {
  const first = md_item(lines[from]);
  const block = { type: 'list', ordered: first.ordered, start: first.number, loose: false, items: [], to: from };
  let to = from;
  while (to < lines.length) {
    const item = md_item(lines[to]);
    if (!item || item.mark !== first.mark || (item.ordered !== first.ordered) || md_rule(lines[to])) break;
    const inner = [lines[to].slice(item.width)];
    let blank = false;
    for (to++; to < lines.length; to++) {
      if (md_blank(lines[to])) { blank = true; inner.push(''); continue; }
      const indent = md_indent(lines[to]);
      if (indent >= item.width || (indent >= item.indent + 2 && md_item(lines[to].trimStart()))) {
        if (blank) block.loose = true;
        inner.push(lines[to].slice(Math.min(indent, item.width)));
      } else if (!blank && !md_starts(lines[to])) inner.push(lines[to].trimStart());
      else break;
      blank = false;
    }
    while (inner.length > 1 && inner[inner.length - 1] === '') inner.pop();
    block.items.push(inner);
    const next = blank && to < lines.length ? md_item(lines[to]) : null;
    if (next && next.mark === first.mark && next.ordered === first.ordered) block.loose = true;
  }
  block.to = to;
  return block;
}

function md_take_table(lines, from, align) {
  const block = { type: 'table', align, head: md_cells(lines[from]), rows: [], to: from + 2 };
  while (block.to < lines.length && !md_blank(lines[block.to]) && lines[block.to].includes('|') && block.rows.length < MD_ROWS)
    block.rows.push(md_cells(lines[block.to++]).slice(0, align.length));
  return block;
}

function md_take_text(lines, from) {
  let to = from + 1;
  while (to < lines.length && !md_blank(lines[to]) && !md_starts(lines[to]) && !md_table(lines[to], lines[to + 1])) to++;
  return { type: 'text', text: lines.slice(from, to).map((line) => line.trim()).join('\n'), to };
}

function md_take(lines, from, depth, before) {
  const line = lines[from];
  if (before && before.type === 'table' && before.rows.length === MD_ROWS && before.to === from && line.includes('|'))
    return { ...md_take_table(lines, from - 2, before.align), head: null };
  if (md_fence(line)) return md_take_fence(lines, from);
  const heading = md_heading(line);
  if (heading) return { type: 'heading', level: heading[1].length, text: line.trim().slice(heading[1].length).trim().replace(/\s#+$/, ''), to: from + 1 };
  if (md_rule(line)) return { type: 'rule', to: from + 1 };
  if (depth < MD_DEPTH && md_quote(line)) return md_take_quote(lines, from);
  if (depth < MD_DEPTH && md_item(line)) return md_take_list(lines, from);
  const align = md_table(line, lines[from + 1]);
  if (align) return md_take_table(lines, from, align);
  if (/^ {4}/.test(line)) {
    let to = from;
    while (to < lines.length && (md_blank(lines[to]) || /^ {4}/.test(lines[to]))) to++;
    while (md_blank(lines[to - 1])) to--;
    return { type: 'code', language: '', text: lines.slice(from, to).map((l) => l.slice(4)).join('\n'), to };
  }
  return md_take_text(lines, from);
}

function md_blocks(lines, depth) {
  const blocks = [];
  for (let i = 0, before = null; i < lines.length; ) {
    if (md_blank(lines[i])) { i++; continue; }
    before = md_take(lines, i, depth, before);
    before.source = lines.slice(i, before.to).join('\n');
    blocks.push(before);
    i = before.to;
  }
  return blocks;
}

/* ---- words within a block */

function md_url(text) {
  let url;
  try { url = new URL(text); } catch { return null; }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

function md_link(href, label) {
  const link = el('a', '', label);
  link.href = href;
  link.target = '_blank';
  link.rel = 'noopener noreferrer nofollow';
  link.title = href;
  return link;
}

/* "(target "title")" at text[at]: {target, end}, or null. */
function md_target(text, at) {
  let i = at + 1, depth = 0;
  const end = Math.min(text.length, at + MD_URL);
  while (text[i] === ' ') i++;
  const start = i;
  if (text[i] === '<') {
    const close = text.slice(i, end).search(/[>\n]/);
    if (close < 0 || text[i + close] !== '>') return null;
    i += close + 1;
  } else
    for (; i < end && !/\s/.test(text[i]); i++) {
      if (text[i] === '(' && ++depth > 8) return null;
      if (text[i] === ')' && --depth < 0) break;
    }
  const target = text.slice(start, i).replace(/^<|>$/g, '');
  const rest = /^\s*(?:"[^"\n]{0,200}"|'[^'\n]{0,200}')?\s*\)/.exec(text.slice(i, i + 240));
  return rest && depth <= 0 ? { target, end: i + rest[0].length } : null;
}

/* A run of * or _ or ~ may open or close emphasis by what stands on its sides (CommonMark 0.31, section 6.2). */
function md_delimiter(text, at, n) {
  const space = (c) => c === undefined || /\s/.test(c), mark = (c) => c !== undefined && /[\p{P}\p{S}]/u.test(c);
  const before = text[at - 1], after = text[at + n];
  const left = !space(after) && (!mark(after) || space(before) || mark(before));
  const right = !space(before) && (!mark(before) || space(after) || mark(after));
  const within = text[at] === '_';
  return { ch: text[at], n, full: n, open: left && (!within || !right || mark(before)), close: right && (!within || !left || mark(after)), opens: [], closes: [] };
}

/* May these two be a pair? A run that could be both, opening and closing, is kept from pairing in some cases so that
 * **a*b*c** is one strong text with b stressed (CommonMark 0.31, section 6.2, rules 9 and 10). */
function md_fits(opener, closer) {
  if (opener.ch !== closer.ch) return false;
  if (closer.ch === '~') return true;
  return !((opener.close || closer.open) && (opener.full + closer.full) % 3 === 0 && (opener.full % 3 || closer.full % 3));
}

/* Pairs delimiters; tokens that have been paired say what they open and close. */
function md_pair(tokens) {
  const stack = [];
  for (const token of tokens) {
    if (!token.ch || (token.ch === '~' && token.n !== 2)) continue;
    while (token.close && token.n > 0) {
      let at = stack.length - 1;
      const last = Math.max(0, stack.length - MD_SEARCH);
      while (at >= last && !md_fits(stack[at], token)) at--;
      if (at < last) break;
      const opener = stack[at], n = Math.min(2, token.n, opener.n);
      const name = token.ch === '~' ? 's' : n === 2 ? 'strong' : 'em';
      stack.length = at + 1;
      opener.opens.unshift(name);
      token.closes.push(name);
      opener.n -= n;
      token.n -= n;
      if (opener.n === 0) stack.pop();
    }
    if (token.open && token.n > 0) stack.push(token);
  }
}

function md_build(tokens) {
  md_pair(tokens);
  const top = document.createDocumentFragment(), open = [top];
  let deep = 0;
  const into = () => open[open.length - 1];
  for (const token of tokens) {
    if (!token.ch) { into().append(token); continue; }
    token.closes.forEach(() => (deep > 0 ? deep-- : open.length > 1 && open.pop()));
    if (token.n) into().append(token.ch.repeat(token.n));
    for (const name of token.opens)
      if (open.length > MD_NESTED) deep++;
      else { const node = el(name); into().append(node); open.push(node); }
  }
  return top;
}

/* Where each length of runs of ` stands, so that a run without a partner is not searched for again. */
function md_ticks(text) {
  const runs = new Map();
  for (const run of text.matchAll(/`+/g)) {
    if (!runs.has(run[0].length)) runs.set(run[0].length, []);
    runs.get(run[0].length).push(run.index);
  }
  return runs;
}

function md_code_span(text, at, n, runs) {
  const places = runs.get(n);
  while (places && places.length && places[0] <= at) places.shift();
  if (!places || !places.length) return null;
  let code = text.slice(at + n, places[0]).replace(/\n/g, ' ');
  if (code.startsWith(' ') && code.endsWith(' ') && code.trim()) code = code.slice(1, -1);
  return { node: el('code', '', code), end: places[0] + n };
}

function md_bracket(text, at, tokens, brackets) {
  const opener = brackets.pop();
  const found = opener && !opener.inLink && text[at + 1] === '(' ? md_target(text, at + 1) : null;
  const href = found && md_url(found.target);
  if (!href) return null;
  const label = md_build(tokens.splice(opener.at + 1));
  tokens.pop(); /* the bracket */
  if (!label.textContent) label.append(found.target);
  tokens.push(md_link(href, label));
  brackets.forEach((outer) => { outer.inLink = true; });
  return found.end;
}

/* The length of a bare address at text[at], without the dots and brackets that end a sentence. */
function md_address(text, at) {
  const found = /^https?:\/\/[^\s<>"'`\\|]{1,2000}/i.exec(text.slice(at, at + MD_URL));
  if (!found || /\w/.test(text[at - 1] || '')) return 0;
  let address = found[0].replace(/[.,:;!?*_~\]]+$/, '');
  if (address.endsWith(')') && !address.includes('(')) address = address.replace(/\)+[.,:;!?]*$/, '');
  return address.length;
}

function md_inline(text) {
  if (text.length > MD_INLINE) return document.createTextNode(text);
  const tokens = [], brackets = [], ticks = md_ticks(text);
  let plain = '';
  const flush = () => { if (plain) tokens.push(plain); plain = ''; };
  for (let i = 0; i < text.length; ) {
    const c = text[i];
    let found = null;
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(text[i + 1] || '')) { plain += text[i + 1]; i += 2; }
    else if (c === '\n') { flush(); tokens.push(el('br')); i++; }
    else if (c === '`') {
      const n = /^`+/.exec(text.slice(i))[0].length;
      found = md_code_span(text, i, n, ticks);
      if (found) { flush(); tokens.push(found.node); i = found.end; } else { plain += '`'.repeat(n); i += n; }
    } else if (c === '*' || c === '_' || (c === '~' && text[i + 1] === '~')) {
      let n = 1;
      while (text[i + n] === c) n++;
      flush();
      tokens.push(md_delimiter(text, i, n));
      i += n;
    } else if (c === '[' || (c === '!' && text[i + 1] === '[')) {
      flush();
      brackets.push({ at: tokens.length, inLink: false });
      tokens.push(c === '!' ? '![' : '[');
      i += c === '!' ? 2 : 1;
    } else if (c === ']') {
      flush();
      const end = md_bracket(text, i, tokens, brackets);
      if (end) i = end; else { plain += c; i++; }
    } else if (c === 'h' && brackets.length === 0 && md_address(text, i)) {
      const address = text.slice(i, i + md_address(text, i)), href = md_url(address);
      if (href) { flush(); tokens.push(md_link(href, address)); } else plain += address;
      i += address.length;
    } else if (c === '<' && (found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/i.exec(text.slice(i, i + MD_URL))) && md_url(found[1])) {
      flush();
      tokens.push(md_link(md_url(found[1]), found[1]));
      i += found[0].length;
    } else { plain += c; i++; }
  }
  flush();
  return md_build(tokens);
}

/* ---- blocks as nodes */

function md_code_node(block) {
  const copy = el('button', 'copy', 'Copy');
  copy.type = 'button';
  copy.setAttribute('aria-label', 'Copy this code');
  const code = el('pre', '', el('code', '', block.text));
  code.tabIndex = 0;
  return el('div', 'code', el('div', 'code-head', el('span', '', block.language || 'text'), copy), code);
}

function md_table_node(block) {
  const row = (name, cells) => el('tr', '', ...block.align.map((align, i) => {
    const cell = el(name, align, md_inline(cells[i] || ''));
    if (name === 'th') cell.scope = 'col';
    return cell;
  }));
  const table = el('table');
  if (block.head) table.append(el('thead', '', row('th', block.head)));
  table.append(el('tbody', '', ...block.rows.map((cells) => row('td', cells))));
  const frame = el('div', 'table', table);
  frame.tabIndex = 0;
  return frame;
}

function md_list_node(block, depth) {
  const list = el(block.ordered ? 'ol' : 'ul');
  if (block.ordered && block.start !== 1) list.start = block.start;
  for (const lines of block.items) {
    const task = /^\[([ xX])\] /.exec(lines[0]);
    if (task) lines[0] = (task[1] === ' ' ? '☐ ' : '☑ ') + lines[0].slice(4);
    const item = el('li');
    for (const inner of md_blocks(lines, depth + 1))
      item.append(inner.type === 'text' && !block.loose ? md_inline(inner.text) : md_node(inner, depth + 1));
    list.append(item);
  }
  return list;
}

function md_node(block, depth) {
  switch (block.type) {
    case 'code': return md_code_node(block);
    case 'heading': return el('h' + Math.min(6, block.level + 1), 'h' + block.level, md_inline(block.text));
    case 'rule': return el('hr');
    case 'quote': return el('blockquote', '', ...md_blocks(block.lines, depth + 1).map((inner) => md_node(inner, depth + 1)));
    case 'list': return md_list_node(block, depth);
    case 'table': return md_table_node(block);
    default: return el('p', '', md_inline(block.text));
  }
}

/* Shows text in target. Called again with more text it makes anew only the blocks that changed, so that a selection in
 * what stands already survives and a long answer costs no more per token than a short one. */
function md_render(target, text) {
  const before = target.mdBlocks || [];
  const blocks = md_blocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'), 0);
  let same = 0;
  while (same < before.length && same < blocks.length && before[same].source === blocks[same].source && before[same].type === blocks[same].type) same++;
  const old = before[same], now = blocks[same];
  if (old && now && old.type === 'code' && now.type === 'code' && old.language === now.language) {
    target.childNodes[same].querySelector('code').textContent = now.text;
    same++;
  }
  while (target.childNodes.length > same) target.lastChild.remove();
  for (let i = same; i < blocks.length; i++) target.append(md_node(blocks[i], 0));
  target.mdBlocks = blocks;
}
