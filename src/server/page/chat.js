/* chat.js - the page's behaviour: one conversation on the screen, at most one answer on its way. */

const SAMPLING = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const NARROW = matchMedia('(max-width: 820px)'); /* the list lies over the page */
const MIDDLE = matchMedia('(max-width: 1180px)'); /* and so do the settings */

const state = {
  chat: null, /* on the screen */
  models: [],
  settings: store.settings(),
  answer: null, /* {chat, message, node, stop} while one is on its way */
  nodes: new WeakMap(), /* of messages */
  follow: true, /* keep the end in sight */
};

/* ---- conversations */

function fresh_chat() {
  return { id: new_id(), title: 'New chat', named: false, system: state.settings.system || '', changed: 0, messages: [] };
}

function show_list() {
  view.list(store.chats(), state.chat.id, {
    open: (id) => { open_chat(store.get(id)); show_side(false); },
    rename(chat, title) {
      if (title && title !== chat.title) { chat.title = title; chat.named = true; store.save(chat); }
      show_list();
    },
    save(chat, kind) {
      const name = chat.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'chat';
      if (kind === 'md') view.download(name + '.md', 'text/markdown', chat_as_markdown(chat));
      else view.download(name + '.json', 'application/json', JSON.stringify(chat, null, 2) + '\n');
    },
    remove(id) {
      const chat = store.get(id), changed = chat.changed;
      if (state.answer && state.answer.chat === chat) state.answer.stop();
      store.remove(id);
      if (state.chat.id === id) open_chat(null); else show_list();
      view.toast('Conversation deleted', () => { store.save(chat); chat.changed = changed; store.write(CHAT + id, chat); open_chat(chat); });
    },
  });
}

function open_chat(chat) {
  state.chat = chat || fresh_chat();
  state.follow = true;
  $('system').value = state.chat.system;
  view.notice(null);
  try { history.replaceState(null, '', chat && chat.messages.length ? '#' + chat.id : location.pathname); } catch { /* too often */ }
  show_messages();
  show_list();
  if (!NARROW.matches) $('input').focus();
}

/* A message's node is made once, and again when what can be done with the message changes. */
function node_of(message, acts) {
  const kind = Object.keys(acts).join(), known = state.nodes.get(message);
  if (known && known.kind === kind) return known.node;
  const node = view.message(message, acts);
  state.nodes.set(message, { node, kind });
  return node;
}

function show_messages() {
  const { messages } = state.chat;
  const last_user = messages.findLastIndex((one) => one.role === 'user');
  const nodes = messages.map((message, i) => {
    const acts = {};
    if (i === last_user) acts.edit = () => edit_message(i);
    if (i === messages.length - 1 && message.role === 'assistant') acts.again = () => answer_again();
    return node_of(message, acts);
  });
  const shown = $('log').childNodes; /* left alone where nothing changed: a selection in them stays */
  if (nodes.length !== shown.length || nodes.some((node, i) => node !== shown[i])) $('log').replaceChildren(...nodes);
  $('empty').hidden = messages.length > 0;
  document.title = messages.length ? `${state.chat.title} · quire` : 'quire';
  show_state();
  scroll_down();
}

function edit_message(i) {
  if (state.answer) return;
  view.editor($('log').children[i], state.chat.messages[i].content, (text) => {
    state.chat.messages.length = i;
    send(text);
  });
}

function answer_again() {
  const { messages } = state.chat;
  if (state.answer || !messages.length) return;
  if (messages[messages.length - 1].role === 'assistant') messages.pop();
  answer();
}

/* ---- an answer */

function send(text) {
  const chat = state.chat;
  if (state.answer || !text.trim()) return false;
  chat.messages.push({ role: 'user', content: text });
  if (!chat.named && chat.messages.length === 1) chat.title = title_of(text);
  answer();
  return true;
}

/* What the model gets. Two messages of the user in a row (an answer failed) are one, since templates want turns. */
function request_of(chat) {
  const messages = chat.system.trim() ? [{ role: 'system', content: chat.system }] : [];
  for (const { role, content } of chat.messages) {
    const last = messages[messages.length - 1];
    if (last && last.role === role) last.content += '\n\n' + content;
    else messages.push({ role, content });
  }
  const request = { model: model_name(), messages };
  for (const name of SAMPLING)
    if (Number.isFinite(state.settings[name])) request[name] = state.settings[name];
  return request;
}

async function answer() {
  const chat = state.chat, request = request_of(chat), control = new AbortController();
  const message = { role: 'assistant', content: '', thought: '' };
  chat.messages.push(message);
  const node = node_of(message, { again: () => answer_again() });
  const run = { chat, message, node, stop: () => control.abort(), started: performance.now(), pieces: 0 };
  state.answer = run;
  state.follow = true;
  view.notice(null);
  store.save(chat);
  history.replaceState(null, '', '#' + chat.id);
  view.fill(node, message, true);
  show_messages();
  show_list();
  say('Answering');
  let trouble = null;
  try {
    await stream_chat(request, store.key, control.signal, (part) => take_part(run, part));
  } catch (error) {
    if (error.name === 'AbortError') message.end = 'stopped';
    else { message.end = 'failed'; trouble = error instanceof Trouble ? error : new Trouble('Something went wrong', String(error.message), 'retry'); }
  }
  end_answer(run, trouble);
}

function take_part(run, part) {
  const { message } = run, now = performance.now();
  if (part.text || part.thought) {
    if (!run.first) run.first = now;
    run.last = now;
    run.pieces++;
    message.content += part.text || '';
    message.thought += part.thought || '';
  }
  if (part.finish === 'length') message.end = 'length';
  if (now - (run.kept || run.started) > 2000 && store.get(run.chat.id) === run.chat) { run.kept = now; store.save(run.chat); }
  if (part.usage) run.tokens = part.usage.completion_tokens;
  measure(run);
  if (!run.frame) run.frame = requestAnimationFrame(() => { run.frame = 0; draw(run, true); });
}

/* Rate of what comes after the first token; the pieces of the stream are counted until the server tells the tokens. */
function measure(run) {
  if (!run.first) return;
  const tokens = run.tokens || run.pieces, seconds = (run.last - run.first) / 1000;
  run.message.stats = { first: run.first - run.started, tokens };
  if (tokens > 1 && seconds > 0.02) run.message.stats.rate = (tokens - 1) / seconds;
}

function draw(run, busy) {
  view.fill(run.node, run.message, busy);
  if (state.chat === run.chat) scroll_down();
}

function end_answer(run, trouble) {
  const { chat, message } = run;
  cancelAnimationFrame(run.frame);
  state.answer = null;
  if (!message.content && !message.thought && message.end) chat.messages.splice(chat.messages.indexOf(message), 1);
  if (store.get(chat.id) === chat) store.save(chat);
  draw(run, false);
  if (state.chat === chat) {
    show_messages();
    if (trouble) view.notice(trouble, () => (trouble.action === 'key' ? show_settings(true, 'key') : answer_again()));
  }
  show_list();
  show_state();
  say(trouble ? '' : message.end === 'stopped' ? 'Stopped' : 'Answer: ' + run.node.querySelector('.body').textContent.slice(0, 1500));
  if (trouble && trouble.action !== '') watch_server();
}

/* ---- the server */

const model_name = () => (state.models.some((one) => one.id === state.settings.model) ? state.settings.model : state.models.length ? state.models[0].id : '');

function show_models() {
  $('model-field').hidden = state.models.length < 2;
  $('model-pick').replaceChildren(...state.models.map((one) => el('option', '', one.id)));
  $('model-pick').value = model_name();
}

function show_server(kind, text) {
  $('dot').className = 'dot ' + kind;
  $('model').textContent = text;
  $('model').title = text;
}

/* Asks for the models until there is one. */
async function watch_server() {
  clearTimeout(state.watch);
  let wait = 2000;
  try {
    state.models = await fetch_models(store.key);
    if (state.models.length) {
      show_server('good', model_name().split('/').pop().replace(/\.gguf$/i, ''));
      wait = 0;
    } else show_server('wait', 'loading the model');
  } catch (trouble) {
    state.models = [];
    if (trouble.action === 'key') { show_server('bad', 'API key needed'); wait = 0; } else show_server('bad', 'no connection');
  }
  show_models();
  show_state();
  if (wait) state.watch = setTimeout(watch_server, wait);
}

/* ---- what is shown */

function show_state() {
  const busy = Boolean(state.answer);
  $('send').classList.toggle('stop', busy);
  $('send').setAttribute('aria-label', busy ? 'Stop' : 'Send');
  $('send-icon').setAttribute('href', busy ? '#i-stop' : '#i-send');
  $('send').disabled = !busy && !$('input').value.trim();
  document.body.classList.toggle('answering', busy);
}

function scroll_down() {
  if (state.follow) $('scroll').scrollTop = $('scroll').scrollHeight;
  show_latest();
}

function show_latest() {
  const { scrollHeight, scrollTop, clientHeight } = $('scroll');
  $('latest').hidden = scrollHeight - scrollTop - clientHeight < 120;
}

function show_side(open) {
  $('app').classList.toggle('side-shown', open);
  $('side-open').setAttribute('aria-expanded', String(open));
  show_scrim();
  if (NARROW.matches) $(open ? 'side-close' : 'side-open').focus();
}

function show_settings(open, field) {
  $('settings').hidden = !open;
  $('settings-open').setAttribute('aria-expanded', String(open));
  $('app').classList.toggle('settings-shown', open);
  show_scrim();
  if (open) $(field || 'system').focus(); else $('settings-open').focus();
}

/* What lies under a panel that covers it takes no focus. */
function show_scrim() {
  const side = NARROW.matches && $('app').classList.contains('side-shown');
  const settings = MIDDLE.matches && !$('settings').hidden;
  $('scrim').hidden = !(side || settings);
  $('main').inert = side || settings;
  $('side').inert = settings || (NARROW.matches && !side);
}

const THEMES = { '': 'as the system', light: 'light', dark: 'dark' };
function show_theme() {
  const theme = state.settings.theme in THEMES ? state.settings.theme : '';
  document.documentElement.dataset.theme = theme;
  $('theme').setAttribute('aria-label', 'Theme: ' + THEMES[theme]);
  $('theme').title = 'Theme: ' + THEMES[theme];
}

/* ---- settings */

function save_settings(change) {
  state.settings = { ...store.settings(), ...change };
  store.save_settings(state.settings);
}

function read_field(name) {
  const field = $(name), good = field.checkValidity();
  field.setAttribute('aria-invalid', String(!good));
  if (good) save_settings({ [name]: field.value === '' ? undefined : field.valueAsNumber });
}

function fill_fields() {
  for (const name of SAMPLING) {
    $(name).value = Number.isFinite(state.settings[name]) ? state.settings[name] : '';
    $(name).setAttribute('aria-invalid', 'false');
  }
  $('key').value = store.key;
}

/* ---- hands on the page */

function press_send() {
  if (state.answer) { state.answer.stop(); return; }
  if (!send($('input').value)) return;
  $('input').value = '';
  view.grow($('input'), 220);
  show_state();
}

function listen() {
  $('composer').addEventListener('submit', (event) => { event.preventDefault(); press_send(); });
  $('input').addEventListener('input', () => { view.grow($('input'), 220); show_state(); });
  $('input').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!state.answer) press_send();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      if (state.answer) state.answer.stop();
      else if ($('app').classList.contains('side-shown')) show_side(false);
      else if (!$('settings').hidden) show_settings(false);
    }
    if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === 'o') { event.preventDefault(); open_chat(null); $('input').focus(); }
  });
  $('new').addEventListener('click', () => { open_chat(null); if (NARROW.matches) show_side(false); $('input').focus(); });
  $('side-open').addEventListener('click', () => show_side(true));
  $('side-close').addEventListener('click', () => show_side(false));
  $('settings-open').addEventListener('click', () => show_settings($('settings').hidden));
  $('settings-close').addEventListener('click', () => show_settings(false));
  $('scrim').addEventListener('click', () => ($('settings').hidden ? show_side(false) : show_settings(false)));
  $('theme').addEventListener('click', () => {
    const names = Object.keys(THEMES);
    save_settings({ theme: names[(names.indexOf(state.settings.theme || '') + 1) % names.length] });
    show_theme();
  });
  $('notice-close').addEventListener('click', () => view.notice(null));
  $('latest').addEventListener('click', () => { state.follow = true; scroll_down(); });
  $('scroll').addEventListener('scroll', () => {
    const { scrollHeight, scrollTop, clientHeight } = $('scroll');
    state.follow = scrollHeight - scrollTop - clientHeight < 40;
    show_latest();
  }, { passive: true });
  $('log').addEventListener('click', async (event) => {
    const copy = event.target.closest('.copy');
    if (!copy) return;
    copy.textContent = (await copy_text(copy.closest('.code').querySelector('code').textContent)) ? 'Copied' : 'Not copied';
    setTimeout(() => { copy.textContent = 'Copy'; }, 1400);
  });
  NARROW.addEventListener('change', () => { $('app').classList.remove('side-shown'); show_scrim(); });
  MIDDLE.addEventListener('change', show_scrim);
}

function listen_settings() {
  $('form').addEventListener('submit', (event) => event.preventDefault());
  $('system').addEventListener('input', () => {
    state.chat.system = $('system').value;
    save_settings({ system: state.chat.system });
    if (state.chat.messages.length && !state.answer) store.save(state.chat);
  });
  for (const name of SAMPLING) $(name).addEventListener('input', () => read_field(name));
  $('reset').addEventListener('click', () => { save_settings(Object.fromEntries(SAMPLING.map((name) => [name, undefined]))); fill_fields(); });
  $('model-pick').addEventListener('change', () => { save_settings({ model: $('model-pick').value }); watch_server(); });
  $('key').addEventListener('change', () => { store.key = $('key').value.trim(); watch_server(); });
  /* Another tab changed something. */
  addEventListener('storage', (event) => {
    if (event.key === SETTINGS) { state.settings = store.settings(); show_theme(); fill_fields(); }
    if (!(event.key || '').startsWith(CHAT) || state.answer) return;
    store.load();
    const chat = store.get(state.chat.id);
    if (chat && JSON.stringify(chat) !== JSON.stringify(state.chat)) { state.chat = chat; show_messages(); }
    show_list();
  });
}

store.full = () => view.notice(new Trouble('The browser has no room left', 'Delete conversations, or export them, so that new ones can be kept.', ''));
store.load();
show_theme();
fill_fields();
listen();
listen_settings();
show_scrim();
open_chat(store.get(location.hash.slice(1)) || null);
watch_server();
