/* view.js - pieces of the page: messages, the list of conversations, notices. */

const $ = (id) => document.getElementById(id);

function icon(name) {
  const svg = $('send-icon').ownerSVGElement.cloneNode(true);
  const use = svg.firstElementChild;
  use.removeAttribute('id');
  use.setAttribute('href', '#i-' + name);
  return svg;
}

function button(className, name, label, press) {
  const node = el('button', className, ...(name ? [icon(name)] : [label]));
  node.type = 'button';
  if (name) { node.setAttribute('aria-label', label); node.title = label; }
  node.addEventListener('click', press);
  return node;
}

/* Over plain http of another machine there is no clipboard but the old one. */
async function copy_text(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* the old way */ }
  const area = el('textarea', 'sr', text);
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

function say(text) { $('live').textContent = text; }

const view = {
  /* ---- messages */

  stats(message) {
    const stats = message.stats, parts = [];
    if (!stats) return '';
    if (stats.rate) parts.push(`${stats.rate < 100 ? stats.rate.toFixed(1) : Math.round(stats.rate)} tok/s`);
    if (stats.first !== undefined) parts.push(`first token ${stats.first < 1000 ? Math.round(stats.first) + ' ms' : (stats.first / 1000).toFixed(2) + ' s'}`);
    if (stats.tokens) parts.push(`${stats.tokens} token${stats.tokens === 1 ? '' : 's'}`);
    if (message.end === 'stopped') parts.push('stopped');
    if (message.end === 'length') parts.push('cut at the length limit');
    if (message.end === 'failed') parts.push('incomplete');
    return parts.join(' · ');
  },

  /* A message's node; acts: {edit, again} where they are possible. */
  message(message, acts) {
    const user = message.role === 'user';
    const body = el('div', user ? 'body plain-text' : 'body prose');
    const node = el('article', 'message ' + message.role);
    node.setAttribute('aria-label', user ? 'You' : 'Model');
    if (!user) {
      const thought = el('details', 'thought', el('summary', '', 'Thoughts'), el('div', 'prose'));
      thought.hidden = true;
      node.append(thought);
    }
    const foot = el('div', 'foot');
    const stats = el('span', 'stats');
    const copy = button('icon small', 'copy', 'Copy this message', async () => view.flash(copy, await copy_text(message.content)));
    const tools = el('div', 'tools', copy);
    if (acts.edit) tools.append(button('icon small', 'edit', 'Edit this message', acts.edit));
    if (acts.again) tools.append(button('icon small', 'again', 'Answer again', acts.again));
    foot.append(tools, stats);
    node.append(body, foot);
    view.fill(node, message, false);
    return node;
  },
  /* Should the renderer ever fail, the words are shown as they are. */
  prose(target, text) {
    try { md_render(target, text); } catch (error) {
      console.error(error);
      target.mdBlocks = null;
      target.textContent = text;
    }
  },
  fill(node, message, busy) {
    const body = node.querySelector('.body');
    if (message.role === 'user') { body.textContent = message.content; return; }
    const thought = node.querySelector('.thought');
    if (message.thought) {
      thought.hidden = false;
      thought.firstChild.textContent = busy && !message.content ? 'Thinking…' : 'Thoughts';
      view.prose(thought.lastChild, message.thought);
    }
    view.prose(body, message.content);
    node.classList.toggle('busy', busy);
    node.classList.toggle('waiting', busy && !message.content && !message.thought);
    node.setAttribute('aria-busy', String(busy));
    node.querySelector('.foot').hidden = busy && !message.stats;
    node.querySelector('.tools').hidden = busy;
    node.querySelector('.stats').textContent = view.stats(message);
  },
  flash(node, good) {
    node.replaceChildren(icon(good ? 'done' : 'close'));
    setTimeout(() => node.replaceChildren(icon('copy')), 1400);
  },
  /* Turns a message of the user into a field; done(text) or nothing. */
  editor(node, text, done) {
    const area = el('textarea', 'edit');
    area.value = text;
    area.setAttribute('aria-label', 'Edit your message');
    const close = () => { form.replaceWith(body, foot); body.focus(); };
    const [body, foot] = [node.querySelector('.body'), node.querySelector('.foot')];
    const send = el('button', 'primary', 'Send');
    const form = el('form', 'edit-form', area, el('div', 'edit-act', button('plain', '', 'Cancel', close), send));
    form.addEventListener('submit', (event) => { event.preventDefault(); if (area.value.trim()) done(area.value.trim()); });
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); close(); }
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
    });
    area.addEventListener('input', () => view.grow(area, 400));
    body.replaceWith(form);
    foot.remove();
    view.grow(area, 400);
    area.focus();
  },
  grow(area, most) {
    area.style.height = 'auto';
    area.style.height = Math.min(area.scrollHeight + 2, most) + 'px';
  },

  /* ---- the list of conversations */

  list(chats, current, acts) {
    const today = new Date().toDateString(), items = [];
    let group = '';
    for (const chat of chats) {
      const day = new Date(chat.changed).toDateString() === today ? 'Today' : 'Earlier';
      if (day !== group) items.push(el('li', 'group', group = day));
      const open = button('open', '', chat.title, () => acts.open(chat.id));
      open.title = chat.title;
      if (chat.id === current) open.setAttribute('aria-current', 'page');
      const more = button('icon small', 'more', `Actions for ${chat.title}`, () => view.menu(item, more, chat, acts));
      more.setAttribute('aria-haspopup', 'menu');
      more.setAttribute('aria-expanded', 'false');
      const item = el('li', 'chat', open, more);
      items.push(item);
    }
    $('list').replaceChildren(...items);
  },
  menu(item, more, chat, acts) {
    const old = document.querySelector('.menu');
    if (old) { old.close(); if (old.parentNode === item) return; }
    const close = (focus) => {
      menu.remove();
      more.setAttribute('aria-expanded', 'false');
      document.removeEventListener('pointerdown', outside, true);
      if (focus) more.focus();
    };
    const entry = (label, act) => {
      const node = button('', '', label, () => { close(false); act(); });
      node.setAttribute('role', 'menuitem');
      return node;
    };
    const menu = el('div', 'menu',
      entry('Rename', () => view.rename(item, chat, acts.rename)),
      entry('Export as Markdown', () => acts.save(chat, 'md')),
      entry('Export as JSON', () => acts.save(chat, 'json')),
      entry('Delete', () => acts.remove(chat.id)));
    menu.close = () => close(false);
    menu.setAttribute('role', 'menu');
    const outside = (event) => { if (!item.contains(event.target)) close(false); };
    menu.addEventListener('keydown', (event) => {
      const entries = [...menu.children], at = entries.indexOf(document.activeElement);
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); entries[(at + step + entries.length) % entries.length].focus(); }
      if (event.key === 'Escape' || event.key === 'Tab') { event.preventDefault(); event.stopPropagation(); close(true); }
    });
    document.addEventListener('pointerdown', outside, true);
    more.setAttribute('aria-expanded', 'true');
    item.append(menu);
    const box = menu.getBoundingClientRect();
    if (box.bottom > innerHeight - 8) menu.classList.add('up');
    menu.firstChild.focus();
  },
  rename(item, chat, done) {
    const field = el('input', 'rename');
    field.value = chat.title;
    field.maxLength = 100;
    field.setAttribute('aria-label', 'Name of the conversation');
    let over = false;
    const end = (keep) => { if (!over) { over = true; done(chat, keep ? field.value.trim() : ''); } };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) end(true);
      if (event.key === 'Escape') { event.stopPropagation(); end(false); }
    });
    field.addEventListener('blur', () => end(true));
    item.replaceChildren(field);
    field.select();
  },

  /* ---- words to the person */

  notice(trouble, retry) {
    $('notice').hidden = !trouble;
    if (!trouble) return;
    $('notice-title').textContent = trouble.title;
    $('notice-text').textContent = trouble.text;
    $('notice-retry').hidden = !(retry && trouble.action);
    $('notice-retry').textContent = trouble.action === 'key' ? 'Open settings' : 'Try again';
    $('notice-retry').onclick = retry;
  },
  toast(text, undo) {
    clearTimeout(view.toast_timer);
    $('toast-text').textContent = text;
    $('toast-undo').hidden = !undo;
    $('toast-undo').onclick = () => { $('toast').hidden = true; undo(); };
    $('toast').hidden = false;
    view.toast_timer = setTimeout(() => { $('toast').hidden = true; }, 7000);
  },
  download(name, type, text) {
    const link = el('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  },
};
