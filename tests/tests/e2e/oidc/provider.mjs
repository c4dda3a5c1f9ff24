// A real OpenID Connect provider (npm oidc-provider) over TLS, and a client of it.
//
//   node provider.mjs CERTIFICATE KEY [PORTAL SECRET NAME]
//
// Prints its issuer. For every account name read from standard input (`alice`), signs that account in by authorization code with PKCE and
// prints the ID token that the client gets. `groups ACCOUNT GROUP..` changes groups, `remove ACCOUNT` removes somebody, `rotate` signs
// with another key from now on, and forgets the one before; each prints `ok`. With the address of a portal, that is a client of it as well (`vctl`, with
// this secret), which calls this provider NAME. NODE_EXTRA_CA_CERTS must hold the authority of the
// certificate, and of the portal's.
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

// Standard output is for the issuer and tokens: what the provider has to say goes elsewhere.
console.info = console.error;
console.warn = console.error;

const CLIENT = 'kubernetes';
const REDIRECT = 'https://client.example/callback';
const GROUPS = { alice: ['developers', 'everyone'], bob: ['leads', 'everyone'] };

const [certificate, key] = process.argv.slice(2, 4).map((path) => readFileSync(path));
const [portal, secret, name] = process.argv.slice(4);
const removed = new Set();
const portals = portal ? [{
  client_id: 'vctl', client_secret: secret, redirect_uris: [`${portal}/auth/callback`], response_types: ['code'],
  grant_types: ['authorization_code', 'refresh_token'], post_logout_redirect_uris: [`${portal}/login`],
  backchannel_logout_uri: `${portal}/auth/back-channel-logout/${name}`, backchannel_logout_session_required: true,
}] : [];
const server = createServer({ cert: certificate, key });
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `https://localhost:${server.address().port}`;

// A key of its own: two providers that shared one could not be told apart by their signatures.
function newKey() {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  return { ...key, kid: randomBytes(8).toString('hex'), use: 'sig', alg: 'RS256' };
}

const configuration = {
  clients: [{
    client_id: CLIENT, redirect_uris: [REDIRECT], response_types: ['code'], grant_types: ['authorization_code'],
    token_endpoint_auth_method: 'none',
  }, ...portals],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  cookies: { keys: [randomBytes(16).toString('hex')] },
  findAccount: (_, id) => (removed.has(id) ? undefined : {
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: id !== 'mallory', groups: GROUPS[id] ?? [] }),
  }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  loadExistingGrant: async (ctx) => {
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope('openid email groups');
    await grant.save();
    return grant;
  },
};
let provider;
let answer;
function serve() {
  provider = new Provider(issuer, { ...configuration, jwks: { keys: [newKey()] } });
  answer = provider.callback();
}
serve();
server.on('request', async (request, response) => {
  if (!request.url.startsWith('/interaction/')) return answer(request, response);
  try {
    // Whoever asks is who they say they are: this is a test. Who does not say is asked, as people are.
    const { params } = await provider.interactionDetails(request, response);
    const account = params.login_hint ?? new URL(request.url, issuer).searchParams.get('account');
    if (account) return await provider.interactionFinished(request, response, { login: { accountId: account } });
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><html lang="en"><title>The company</title>
<h1>The company</h1><form><label>Account <input name="account" autofocus></label> <button>Sign in</button></form>`);
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});

async function signIn(account) {
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    client_id: CLIENT, redirect_uri: REDIRECT, response_type: 'code', scope: 'openid email groups', login_hint: account,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
  });
  const cookies = new Map();
  let next = `${issuer}/auth?${query}`;
  while (!next.startsWith(REDIRECT)) {
    const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
    const step = await fetch(next, { redirect: 'manual', headers });
    for (const cookie of step.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    const location = step.headers.get('location');
    if (!location) throw new Error(`${next}: ${step.status} ${await step.text()}`);
    next = new URL(location, issuer).href;
  }
  const body = new URLSearchParams({
    grant_type: 'authorization_code', client_id: CLIENT, redirect_uri: REDIRECT, code_verifier: verifier,
    code: new URL(next).searchParams.get('code'),
  });
  const tokens = await (await fetch(`${issuer}/token`, { method: 'POST', body })).json();
  if (!tokens.id_token) throw new Error(JSON.stringify(tokens));
  return tokens.id_token;
}

console.log(issuer);
for await (const line of createInterface({ input: process.stdin })) {
  const [word, account, ...groups] = line.trim().split(' ');
  if (word === 'groups') {
    GROUPS[account] = groups;
    console.log('ok');
  } else if (word === 'remove') {
    removed.add(account);
    console.log('ok');
  } else if (word === 'rotate') {
    // What is kept of sessions and codes is kept by the module, not by the instance.
    serve();
    console.log('ok');
  } else {
    console.log(await signIn(word));
  }
}
process.exit(0);
