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
    const query = new URLSearchParams({ name: file.name, whole: file.size <= HEAD_BYTES ? "1" : "" });
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

// <form data-try="ID">: the answers come into the box of that id. The form may be a part that came later.
async function ask(form) {
  const box = document.getElementById(form.dataset.try);
  const button = form.querySelector("button");
  button.disabled = true;
  box.setAttribute("aria-busy", "true");
  const body = new URLSearchParams(new FormData(form));
  const answer = await part(form.action, { method: "POST", body }).catch(() => null);
  if (answer) put(box, await answer.text());
  else form.submit();
  box.removeAttribute("aria-busy");
  button.disabled = false;
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.try) return;
  event.preventDefault();
  ask(event.target);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("form[data-try]")?.requestSubmit();
});
document.querySelectorAll("[data-refresh]").forEach(keepFresh);
document.querySelectorAll("[data-events]").forEach(follow);
document.querySelectorAll("form[data-look]").forEach(watchUpload);
