// Makes pages nicer; none needs it. Live parts, copying, times in the reader's own zone, no double posts.
"use strict";

const times = (root) => {
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = exact.format(new Date(time.dateTime));
  }
};

const copies = (root) => {
  for (const code of root.querySelectorAll("code[data-copy]:not([data-ready])")) {
    code.dataset.ready = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${code.dataset.copy}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      say(`Copied ${code.dataset.copy}`);
    });
    code.after(button);
  }
};

// What somebody folded up stays so on the next pages.
const kept = (root) => {
  for (const details of root.querySelectorAll("details[data-kept]")) {
    const key = `folded:${details.id}`;
    details.open = !sessionStorage.getItem(key);
    details.addEventListener("toggle", () => {
      if (details.open) sessionStorage.removeItem(key);
      else sessionStorage.setItem(key, "1");
    });
  }
};

const say = (text) => {
  document.getElementById("live").textContent = text;
};

// A form that is under way is not sent twice. Going back brings the page as it was: then it may be sent again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "1";
  event.submitter?.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    form.querySelector("[aria-busy]")?.removeAttribute("aria-busy");
  }
});

// Parts marked `data-live` follow what happens on the server: at each event the page is fetched again and the parts that
// differ are exchanged. What somebody types or has opened stays.
const live = () => {
  const source = document.querySelector("[data-events]");
  if (!source) return;
  const events = new EventSource(source.dataset.events);
  let fetching = false;
  let again = false;
  const refresh = async () => {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected || !answer.ok) {
        location.reload();
        return;
      }
      exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // The next event, or the stream's own reconnect, tries again.
    } finally {
      fetching = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  };
  const exchange = (fresh) => {
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (!now || old.contains(document.activeElement) && old.querySelector("input:focus, select:focus, textarea:focus")) continue;
      const open = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      times(now);
      kept(now);
      for (const id of open) now.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
      if (now.innerHTML === old.innerHTML) continue;
      old.replaceWith(now);
      copies(now);
      if (focused) document.getElementById(focused)?.focus();
      const news = now.dataset.live;
      if (news) say(news);
    }
  };
  events.addEventListener("changed", refresh);
  let lost = false;
  events.addEventListener("error", () => { lost = true; });
  events.addEventListener("open", () => {
    if (lost) refresh();
    lost = false;
  });
};

times(document);
copies(document);
kept(document);
live();
