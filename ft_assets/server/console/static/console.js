// The live parts of the console's pages. Every page works without them.
"use strict";

const formToken = document.querySelector('meta[name="form-token"]')?.content ?? "";
const HEAD_BYTES = 256 * 1024;
const EVERY_MS = 2000;

function part(url, options = {}) {
  return fetch(url, { ...options, headers: { "x-part": "1", "x-form-token": formToken, ...options.headers } });
}

function put(box, html) {
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  box.innerHTML = html;
  if (focused) document.getElementById(focused)?.focus();
}

// <div data-refresh="URL">: what the URL gives, again and again until it says that nothing more will change.
async function keepFresh(box) {
  let shown = "";
  for (let ended = false; !ended; ) {
    await new Promise((done) => setTimeout(done, EVERY_MS));
    if (document.hidden) continue;
    const answer = await part(box.dataset.refresh).catch(() => null);
    if (answer?.status === 401) return location.reload();
    if (!answer?.ok) continue;
    const html = await answer.text();
    if (html !== shown) put(box, html);
    shown = html;
    ended = answer.headers.get("x-ended") === "1";
  }
}

// <ol data-events="URL">: a line for each event that is not there yet.
function follow(list) {
  const source = new EventSource(list.dataset.events);
  source.addEventListener("fine_tuning.job.event", (message) => {
    const event = JSON.parse(message.data);
    if (document.getElementById(event.id)) return;
    const line = document.createElement("li");
    line.id = event.id;
    line.className = event.level;
    const time = document.createElement("time");
    time.textContent = new Date(event.created_at * 1000).toISOString().slice(11, 19);
    line.append(time, " ", event.message);
    list.append(line);
    list.scrollTop = list.scrollHeight;
  });
  source.addEventListener("message", () => source.close());
}

// <form data-look="URL">: the file's beginning is looked at once it is chosen, and the upload shows how far it is.
function watchUpload(form) {
  const input = form.querySelector('input[type="file"]');
  const box = document.getElementById("look");
  const bar = form.querySelector("progress");
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return put(box, "");
    box.setAttribute("aria-busy", "true");
    const query = new URLSearchParams({ name: file.name, whole: file.size <= HEAD_BYTES });
    const body = await file.slice(0, HEAD_BYTES).arrayBuffer();
    const headers = { "content-type": "application/octet-stream" };
    const answer = await part(`${form.dataset.look}?${query}`, { method: "POST", body, headers }).catch(() => null);
    if (input.files[0] === file) put(box, answer ? await answer.text() : "");
    box.removeAttribute("aria-busy");
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    const ended = () => {
      bar.hidden = true;
      const next = request.getResponseHeader("x-next");
      if (next) location = next;
      else if (request.responseText) put(box, request.responseText);
      form.querySelector("button").disabled = false;
    };
    request.open("POST", form.action);
    request.setRequestHeader("x-part", "1");
    request.upload.addEventListener("progress", (sent) => { bar.value = sent.loaded / sent.total; });
    request.addEventListener("loadend", ended);
    bar.hidden = false;
    form.querySelector("button").disabled = true;
    request.send(new FormData(form));
  });
}

// <form data-again="ID">: what is chosen changes what stands in the box of that id, by what the form's own page gives.
let newest = 0;
async function chooseAgain(form) {
  const box = document.getElementById(form.dataset.again);
  const mine = ++newest;
  box.setAttribute("aria-busy", "true");
  const answer = await part(`${form.action}?${new URLSearchParams(new FormData(form))}`).catch(() => null);
  if (mine !== newest) return;
  if (answer) put(box, await answer.text());
  box.removeAttribute("aria-busy");
}

// <form data-try="ID">: the answers come into the box of that id, each as it is written; while they do, the button ends
// them. The form may be a part that came later.
const asking = new WeakMap();

async function ask(form) {
  if (asking.has(form)) return asking.get(form).abort();
  const box = document.getElementById(form.dataset.try);
  const button = form.querySelector("button");
  const words = button.textContent;
  const stop = new AbortController();
  const fields = new FormData(form);
  asking.set(form, stop);
  button.textContent = "Stop";
  box.replaceChildren(form.querySelector("template").content.cloneNode(true));
  for (const said of box.querySelectorAll("[data-said]")) {
    said.textContent = fields.get(said.dataset.said);
    said.parentElement.hidden = !said.textContent;
  }
  const answers = [...box.querySelectorAll("[data-of]")];
  await Promise.all(answers.map((answer) => fill(answer, box, form.action, fields, stop.signal)));
  button.textContent = words;
  asking.delete(form);
}

async function fill(answer, box, action, fields, signal) {
  const body = new URLSearchParams(fields);
  body.set("of", answer.dataset.of);
  answer.setAttribute("aria-busy", "true");
  try {
    const sent = await part(action, { method: "POST", body, signal });
    if (!sent.ok) return put(box, await sent.text());
    let held = "";
    const texts = sent.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await texts.read(); !read.done; read = await texts.read()) {
      const events = (held + read.value).split("\n\n");
      held = events.pop();
      for (const event of events) add(answer, JSON.parse(event.slice("data: ".length)));
    }
  } catch {
    if (!signal.aborted) add(answer, { problem: "The connection broke off. Ask again." });
  } finally {
    answer.removeAttribute("aria-busy");
  }
}

function add(answer, said) {
  const [thoughts, text] = answer.querySelectorAll("pre");
  const about = answer.querySelector("p");
  if (said.who) answer.querySelector("b").textContent = said.who;
  if (said.thoughts) {
    thoughts.append(said.thoughts);
    thoughts.parentElement.hidden = false;
    // They are open until the answer begins.
    thoughts.parentElement.open = true;
  }
  if (said.text) {
    if (text.hidden) thoughts.parentElement.open = false;
    text.append(said.text);
    text.hidden = false;
  }
  if (said.tokens) about.textContent = `${said.tokens} token${said.tokens === 1 ? "" : "s"}`;
  if (said.finish_reason === "length") about.append(", cut off there");
  if (said.finish_reason && text.hidden) about.prepend(`It ended without ${thoughts.textContent ? "an answer" : "a word"}; `);
  if (said.problem) {
    about.textContent = said.problem;
    about.className = "problem";
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.try) return;
  event.preventDefault();
  ask(event.target);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("form[data-try]")?.requestSubmit();
});
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-again]");
  if (form) chooseAgain(form);
});
document.querySelectorAll("[data-scripted]").forEach((button) => { button.hidden = true; });
document.querySelectorAll("[data-refresh]").forEach(keepFresh);
document.querySelectorAll("[data-events]").forEach(follow);
document.querySelectorAll("form[data-look]").forEach(watchUpload);
