/* stream.js - requests to the server: the model's name, and an answer as it is written. */

/* An error that a person can read: title, text, and what to do about it ('key', 'retry' or ''). */
class Trouble extends Error {
  constructor(title, text, action) {
    super(title);
    Object.assign(this, { title, text, action });
  }
}

const headers = (key) => (key ? { Authorization: 'Bearer ' + key } : {});

/* The server's own words where it sent some. */
async function words_of(response) {
  try { return (await response.json()).error.message || ''; } catch { return ''; }
}

function trouble_of(status, text, wait) {
  const sentence = text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.') : '';
  if (status === 401) return new Trouble('An API key is needed', 'Enter the key of this server in the settings.', 'key');
  if (status === 429) return new Trouble('The server is busy', `Try again in ${wait > 1 ? wait + ' seconds' : 'a moment'}.`, 'retry');
  if (status === 413 || /maximum context length/i.test(text))
    return new Trouble('This conversation is longer than the model can read', `Start a new chat, or shorten the last message. ${sentence}`, '');
  if (status === 400) return new Trouble('The server did not take this request', sentence || 'Check the settings.', '');
  if (status === 503) return new Trouble('The server is not ready', sentence || 'It may still be loading the model.', 'retry');
  if (status === 403) return new Trouble('The server refused', sentence, '');
  return new Trouble('Something went wrong', sentence || `The server answered with status ${status}.`, 'retry');
}

const no_server = () => new Trouble('The server does not answer', 'It may have been stopped, or the connection was lost.', 'retry');

async function fetch_models(key) {
  let response;
  try {
    response = await fetch('v1/models', { headers: headers(key), cache: 'no-store' });
  } catch { throw no_server(); }
  if (!response.ok) throw trouble_of(response.status, await words_of(response), 0);
  return (await response.json()).data || [];
}

/* Calls data(text) for the data of each server-sent event; any line end, events cut anywhere. */
async function read_events(body, data) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', event = [];
  for (;;) {
    const { value, done } = await reader.read();
    rest += done ? '\n\n' : value;
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data:')) event.push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (line === '' && event.length) { data(event.join('\n')); event = []; }
    }
    if (done) return;
  }
}

/* Asks for an answer. on(part) gets {text}, {thought}, {usage} and {finish} as they come. */
async function stream_chat(request, key, signal, on) {
  let response, whole = false;
  try {
    response = await fetch('v1/chat/completions', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers(key) },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal,
    });
  } catch (error) { throw error.name === 'AbortError' ? error : no_server(); }
  if (!response.ok) throw trouble_of(response.status, await words_of(response), Number(response.headers.get('Retry-After')));
  try {
    await read_events(response.body, (data) => {
      if (data === '[DONE]') { whole = true; return; }
      const chunk = JSON.parse(data);
      if (chunk.error) throw trouble_of(chunk.error.type === 'rate_limit_error' ? 429 : 500, chunk.error.message || '', 0);
      if (chunk.usage) on({ usage: chunk.usage });
      for (const { delta, finish_reason } of (chunk.choices || []).slice(0, 1)) {
        const thought = delta && (delta.reasoning_content || delta.reasoning);
        if (thought) on({ thought });
        if (delta && delta.content) on({ text: delta.content });
        if (finish_reason) on({ finish: finish_reason });
      }
    });
  } catch (error) {
    if (error instanceof Trouble || error.name === 'AbortError') throw error;
    throw new Trouble('The answer was cut off', 'The connection to the server was lost.', 'retry');
  }
  if (!whole) throw new Trouble('The answer was cut off', 'The connection ended before the answer did.', 'retry');
}
