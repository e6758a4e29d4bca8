// An OAuth server from npm, oidc-provider, set up as its README says: one client, one person, pages to sign in and to
// allow. Tokens are the library's own business from the authorization endpoint to the revocation endpoint; ours are the pages, and
// `POST /peer/revoke`, which takes every consent back as a person's account page would.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const setting = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

const library = createRequire(pathToFileURL(`${setting('PEER_LIBRARIES')}/`));
const { default: Provider } = await import(pathToFileURL(library.resolve('oidc-provider')));

const DAY = 24 * 60 * 60;
const person = { email: setting('PEER_PERSON'), password: setting('PEER_PASSWORD'), sub: 'user-1', name: 'Ada Admin' };

// The address is known before the provider is made: whoever asks it about itself has to find it under its own name.
const server = createServer();
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const { port } = server.address();
const issuer = process.env.PEER_OWN_NAME ? `http://127.0.0.1:${port}` : 'https://id.tidewater.example';

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: setting('PEER_CLIENT_ID'),
      client_secret: setting('PEER_CLIENT_SECRET'),
      client_name: 'Holdfast',
      redirect_uris: [setting('PEER_REDIRECT_URI')],
      grant_types: ['authorization_code', 'refresh_token'],
    },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  cookies: { keys: [setting('PEER_CLIENT_SECRET')] },
  features: { devInteractions: { enabled: false }, revocation: { enabled: true } },
  findAccount: (_, id) =>
    id === person.sub && {
      accountId: id,
      claims: () => ({ sub: id, email: person.email, email_verified: true, name: person.name }),
    },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  rotateRefreshToken: true,
  ttl: {
    AccessToken: Number(setting('PEER_LIFE_SECS')),
    Grant: 14 * DAY,
    Interaction: 600,
    RefreshToken: 14 * DAY,
    Session: DAY,
  },
});

// What the page of somebody's account would list.
const grants = new Set();
provider.on('grant.success', (ctx) => grants.add(ctx.oidc.entities.Grant.jti));

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const page = (response, title, body) => {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  response.end(
    `<!doctype html><html lang="en"><title>${title}</title><link rel="icon" href="data:,"><h1>${title}</h1>` +
      `<form method="post">${body}</form></html>`,
  );
};

const form = async (request) => {
  let text = '';
  for await (const part of request) text += part;
  return new URLSearchParams(text);
};

const signIn = (response, wrong = '') =>
  page(
    response,
    'Sign in to Tidewater ID',
    `<p>${wrong}</p><label>E-mail address <input name="email" type="email"></label>` +
      '<label>Password <input name="password" type="password"></label><button>Sign in</button>',
  );

const allow = async ({ prompt, params, session, grantId }) => {
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingOIDCClaims } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  if (missingOIDCClaims) grant.addOIDCClaims(missingOIDCClaims);
  return { consent: { grantId: await grant.save() } };
};

const interact = async (request, response) => {
  const interaction = await provider.interactionDetails(request, response);
  const { prompt, params } = interaction;
  const posted = request.method === 'POST' && (await form(request));
  if (prompt.name === 'login') {
    if (!posted) return signIn(response);
    const right = posted.get('email') === person.email && posted.get('password') === person.password;
    if (!right) return signIn(response, 'That is not right.');
    return provider.interactionFinished(request, response, { login: { accountId: person.sub } });
  }
  if (!posted) {
    const scopes = params.scope.split(' ').map((scope) => `<li>${escaped(scope)}</li>`);
    return page(response, 'Allow Holdfast?', `<ul>${scopes.join('')}</ul><button>Allow</button>`);
  }
  return provider.interactionFinished(request, response, await allow(interaction), { mergeWithLastSubmission: true });
};

const revoke = async (response) => {
  for (const id of grants) await (await provider.Grant.find(id))?.destroy();
  response.writeHead(204).end();
};

const answer = provider.callback();
server.on('request', async (request, response) => {
  try {
    if (request.url.startsWith('/interaction/')) await interact(request, response);
    else if (request.method === 'POST' && request.url === '/peer/revoke') await revoke(response);
    else await answer(request, response);
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
console.log(`listening on 127.0.0.1:${port}`);
