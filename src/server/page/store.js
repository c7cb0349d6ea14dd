/* store.js - what the browser keeps. Each conversation has an entry of its own, so that two tabs do not overwrite each
 * other's; the API key lives as long as the tab. Without storage (blocked, full) the page works on in memory. */

const CHAT = 'quire.chat.';
const SETTINGS = 'quire.settings';

const store = {
  memory: new Map(),
  full: null, /* called when the browser has no room left */

  read(name, otherwise) {
    try {
      const value = JSON.parse(localStorage.getItem(name));
      return value && typeof value === 'object' ? value : otherwise;
    } catch { return otherwise; }
  },
  write(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch (error) {
      if (error && error.name === 'QuotaExceededError' && store.full) store.full();
    }
  },

  /* A conversation as it may be shown: whatever another version or another hand wrote there. */
  sound(chat) {
    if (!chat || typeof chat.id !== 'string' || !Array.isArray(chat.messages)) return null;
    const text = (value) => (typeof value === 'string' ? value : '');
    const messages = chat.messages
      .filter((one) => one && (one.role === 'user' || one.role === 'assistant') && typeof one.content === 'string')
      .map((one) => ({ ...one, thought: text(one.thought) }))
      .filter((one) => one.role === 'user' || one.content || one.thought); /* an answer that had not begun */
    return { id: chat.id, title: text(chat.title) || 'New chat', named: chat.named === true, system: text(chat.system), changed: Number(chat.changed) || 0, messages };
  },
  load() {
    store.memory.clear();
    let names = [];
    try { names = Object.keys(localStorage).filter((name) => name.startsWith(CHAT)); } catch { /* blocked */ }
    for (const name of names) {
      const chat = store.sound(store.read(name, null));
      if (chat && CHAT + chat.id === name) store.memory.set(chat.id, chat);
    }
  },
  chats: () => [...store.memory.values()].sort((a, b) => b.changed - a.changed),
  get: (id) => store.memory.get(id),
  save(chat) {
    chat.changed = Date.now();
    store.memory.set(chat.id, chat);
    store.write(CHAT + chat.id, chat);
  },
  remove(id) {
    store.memory.delete(id);
    try { localStorage.removeItem(CHAT + id); } catch { /* blocked */ }
  },

  settings: () => store.read(SETTINGS, {}),
  save_settings: (settings) => store.write(SETTINGS, settings),
  get key() { try { return sessionStorage.getItem('quire.key') || ''; } catch { return store.secret || ''; } },
  set key(value) {
    store.secret = value;
    try { value ? sessionStorage.setItem('quire.key', value) : sessionStorage.removeItem('quire.key'); } catch { /* blocked */ }
  },
};

function new_id() {
  return [...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36).padStart(2, '0')).join('');
}

function title_of(text) {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length > 48 ? line.slice(0, 47).trimEnd() + '…' : line || 'New chat';
}

function chat_as_markdown(chat) {
  const parts = [`# ${chat.title}`];
  if (chat.system) parts.push('**System**', chat.system);
  for (const one of chat.messages) parts.push(one.role === 'user' ? '**You**' : '**Model**', one.content);
  return parts.join('\n\n') + '\n';
}
