// Makes pages nicer; none needs it. Live parts, copying, times that go on, answers in place, no double posts.
"use strict";

// With seconds and the zone's short name, as logs and mails are compared with.
const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// As the server says it: "just now", "3 minutes ago", "in 2 days".
const relatively = (ms) => {
  const seconds = Math.trunc(Math.abs(ms) / 1000);
  if (seconds < 5) return "just now";
  const unitOf = (seconds) => UNITS.find(([, length]) => seconds >= length);
  // What is to come by the nearest number: a week is 7 days also a moment after it began.
  const told = ms > 0 ? seconds + Math.floor(unitOf(seconds)[1] / 2) : seconds;
  const [unit, length] = unitOf(told);
  const number = Math.floor(told / length);
  const amount = `${number} ${unit}${number === 1 ? "" : "s"}`;
  return ms < 0 ? `${amount} ago` : `in ${amount}`;
};

// The reader's own time zone, and texts that stay true while the page stays open.
const times = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.title = exactly.format(at);
    if ("relative" in time.dataset) {
      const text = relatively(at - Date.now());
      if (time.textContent !== text) time.textContent = text;
    } else if ("lasting" in time.dataset) {
      const text = relatively(at - Date.now()).replace(/^(.*) ago$/, "for $1");
      if (time.textContent !== text) time.textContent = text;
    } else if ("exact" in time.dataset) {
      time.textContent = exactly.format(at);
    }
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

// A part as the server sent it, but for how long ago things were.
const sources = new WeakMap();
const source = (part) => part.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");
for (const part of document.querySelectorAll("[data-live]")) sources.set(part, source(part));

// The parts that are marked `data-live`, from a page that was fetched again, where they differ. What somebody types or
// has opened stays, and what is under way is under way.
const exchange = (fresh) => {
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (!now || source(now) === sources.get(old)) continue;
    sources.set(now, source(now));
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    if (active?.matches("input, select, textarea")) continue;
    kept(now);
    const open = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
    for (const id of open) now.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    for (const form of old.querySelectorAll("form[data-sent]")) {
      const same = now.querySelector(`form[action="${CSS.escape(form.getAttribute("action"))}"]`);
      if (same) same.dataset.sent = "1";
    }
    if (old.matches("select")) now.value = old.value;
    const said = now.dataset.live !== old.dataset.live;
    old.replaceWith(now);
    times(now);
    copies(now);
    if (active?.id) document.getElementById(active.id)?.focus();
    if (said && now.dataset.live) say(now.dataset.live);
  }
};
const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

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
  if ("inPlace" in form.dataset) {
    event.preventDefault();
    inPlace(form);
  }
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) ready(form);
});
const ready = (form) => {
  delete form.dataset.sent;
  form.querySelector("[aria-busy]")?.removeAttribute("aria-busy");
};

// The answer to such a form is this same page: its parts are exchanged, and the one that it is about gets the focus.
const inPlace = async (form) => {
  form.querySelector(".unreached")?.remove();
  say(`${form.dataset.busy}…`);
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "text/html" } });
    const fresh = parsed(await answer.text());
    if (!answer.ok || new URL(answer.url).pathname !== location.pathname) {
      document.getElementById("main").replaceWith(fresh.getElementById("main"));
      document.getElementById("main").focus();
      return;
    }
    forget("consent");
    exchange(fresh);
    const about = document.getElementById(form.dataset.inPlace);
    about?.focus();
    about?.closest("[data-live]")?.classList.add("changed");
    say(about?.textContent ?? "");
  } catch {
    const words = "That did not reach the server. Try again.";
    const told = document.createElement("span");
    told.className = "problem unreached";
    told.textContent = words;
    form.append(told);
    say(words);
  } finally {
    const still = document.querySelector(`form[action="${CSS.escape(form.getAttribute("action"))}"]`);
    ready(form);
    if (still) ready(still);
  }
};

// At each event the page is fetched again. A tab that nobody looks at does not listen: browsers keep few connections to
// one host, and there may be many tabs. It catches up when it is looked at again.
const live = () => {
  const address = () => document.querySelector("[data-events]")?.dataset.events;
  if (!address()) return;
  let events = null;
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
      exchange(parsed(await answer.text()));
    } catch {
      // The next event, or the stream's own reconnect, tries again.
    } finally {
      // Many things in a row, the steps of a run for instance, are shown in a few pages.
      setTimeout(() => {
        fetching = false;
        if (again) {
          again = false;
          refresh();
        }
      }, 400);
    }
  };
  const follow = () => {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events) {
      events = new EventSource(address());
      events.addEventListener("changed", refresh);
      // Refused for good, most likely since the session is over: the page itself knows where to go.
      events.addEventListener("error", () => {
        if (events?.readyState === EventSource.CLOSED) setTimeout(refresh, 2000);
      });
    }
  };
  // What is under way may be cut off, and then nothing tells of it.
  setInterval(() => {
    if (!document.hidden && document.querySelector("[data-under-way]")) refresh();
  }, 10000);
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => {
    events?.close();
    events = null;
  });
  follow();
};

// What is typed is understood while it is typed, by the server that will read it.
const checks = () => {
  for (const input of document.querySelectorAll("input[data-check]")) {
    const told = document.getElementById(`${input.id}-check`);
    let timer = 0;
    let asked = 0;
    const check = async () => {
      const number = ++asked;
      const typed = input.value.trim();
      if (!typed) {
        told.replaceChildren();
        return;
      }
      try {
        const answer = await fetch(`${input.dataset.check}?${new URLSearchParams({ typed })}`);
        const found = await answer.json();
        if (number !== asked) return;
        told.className = `check ${found.account ? "good" : "bad"}`;
        told.replaceChildren(found.account ? `Understood: ${found.account}` : found.problem);
        if (found.known) {
          const link = document.createElement("a");
          link.href = found.known;
          link.textContent = "It is connected already: open it";
          told.append(". ", link);
        }
      } catch {
        // Sending the form checks it again.
      }
    };
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(check, 250);
    });
    // What the server said of it stands there already.
    if (input.value && !input.hasAttribute("aria-invalid")) check();
  }
};

// What was told once is not told again when the page is loaded again.
const forget = (name) => {
  const url = new URL(location.href);
  if (!url.searchParams.has(name)) return;
  url.searchParams.delete(name);
  history.replaceState(history.state, "", url);
};
forget("did");

// A mail is shown as high as it is.
const letters = () => {
  for (const frame of document.querySelectorAll("iframe.letter")) {
    const fit = () => {
      const letter = frame.contentDocument?.documentElement;
      if (!letter) return;
      frame.style.height = "0";
      frame.style.height = `${letter.scrollHeight + 2}px`;
    };
    frame.addEventListener("load", fit);
    addEventListener("resize", fit);
    fit();
  }
};

// A menu is closed by a press anywhere else, by what is chosen in it, and by Escape, which leads back to its button.
const openMenus = () => document.querySelectorAll("details.menu[open]");
document.addEventListener("click", (event) => {
  for (const menu of openMenus()) {
    if (!menu.contains(event.target) || event.target.closest(".menu-list a")) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// What a form came to is where the reader goes on, unless a field waits for them.
const landed = () => {
  const wrong = document.querySelector("main .wrong");
  const told = wrong?.querySelector("input:not([type=hidden]), select, textarea") ?? document.querySelector("main .banner[role]");
  if (!told || document.activeElement !== document.body) return;
  if (wrong) return told.focus();
  told.tabIndex = -1;
  told.focus({ preventScroll: true });
};

// Going back brings a form as it was sent: pages are not stored, their addresses are.
addEventListener("submit", (event) => {
  const form = event.target;
  if (!("keep" in form.dataset)) return;
  const typed = [...form.querySelectorAll("input:not([type=hidden])")].map((input) => [input.name, input.value]);
  history.replaceState(history.state, "", `?${new URLSearchParams(typed)}`);
});

// What is less than two minutes away goes by seconds, all else slowly.
const clock = () => {
  times(document);
  const soon = [...document.querySelectorAll("time[data-relative], time[data-lasting]")].some((time) => Math.abs(new Date(time.dateTime) - Date.now()) < 120000);
  setTimeout(clock, soon ? 1000 : 20000);
};

clock();
letters();
copies(document);
kept(document);
checks();
landed();
live();
