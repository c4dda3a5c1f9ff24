//! Sign-in at a real OpenID Connect provider (npm `oidc-provider`), by a browser that is played over HTTP, and everything that hangs on it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode, Url, header};
use serde_json::{Value, json};
use vctl_tests::{kubectl::Kubectl, platform::Workers, wait};

use crate::company::{Company, SECRET};

/// A browser: keeps cookies by site, and follows nothing by itself.
pub(crate) struct Browser {
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    pub(crate) cookies: BTreeMap<(String, String), String>,
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    location: Option<Url>,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) fn new(authorities: &[&std::path::Path]) -> Result<Self> {
        let mut all = Vec::new();
        for path in authorities {
            all.extend(reqwest::Certificate::from_pem_bundle(&std::fs::read(path)?)?);
        }
        let http = reqwest::Client::builder()
            .tls_certs_only(all)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(30))
            // The server is started anew in between: no connection of before is used again.
            .pool_max_idle_per_host(0)
            .build()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { http, runtime, cookies: BTreeMap::new() })
    }

    fn send(&mut self, method: Method, url: &Url, form: Option<&[(&str, &str)]>) -> Result<Page> {
        let site = url.authority().to_owned();
        let cookies: Vec<String> =
            self.cookies.iter().filter(|((s, _), _)| *s == site).map(|((_, n), v)| format!("{n}={v}")).collect();
        let mut request = self.http.request(method, url.clone()).header(header::COOKIE, cookies.join("; "));
        if let Some(fields) = form {
            let mut body = Url::parse("http://x")?;
            body.query_pairs_mut().extend_pairs(fields);
            request = request
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(body.query().unwrap_or_default().to_owned());
        }
        let (response, text) = self.runtime.block_on(async {
            let response = request.send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, reqwest::Error>(((status, headers), response.text().await?))
        })?;
        for set in response.1.get_all(header::SET_COOKIE) {
            let pair = set.to_str()?.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').context("a cookie")?;
            self.cookies.insert((site.clone(), name.to_owned()), value.to_owned());
        }
        let location = response.1.get(header::LOCATION).and_then(|l| l.to_str().ok());
        Ok(Page { status: response.0, location: location.map(|l| url.join(l)).transpose()?, text })
    }

    pub(crate) fn get(&mut self, url: &Url) -> Result<Page> {
        self.send(Method::GET, url, None)
    }

    /// From the portal to the provider, through it as somebody, and up to the provider's redirect, which is not followed.
    pub(crate) fn up_to_callback(&mut self, start: &Url, account: &str) -> Result<Url> {
        let page = self.get(start)?;
        ensure!(page.status == StatusCode::SEE_OTHER, "{start}: {} {}", page.status, page.text);
        let mut next = page.location.context("to the provider")?;
        next.query_pairs_mut().append_pair("login_hint", account);
        for _ in 0..10 {
            let page = self.get(&next)?;
            next = page.location.with_context(|| format!("{next}: {} {}", page.status, page.text))?;
            if next.path() == "/auth/callback" {
                return Ok(next);
            }
        }
        anyhow::bail!("the provider goes in circles: {next}")
    }

    /// Allows a command line what it asks for at this address; where the browser is sent then.
    pub(crate) fn allow(&mut self, address: &Url) -> Result<Url> {
        let page = self.get(address)?;
        ensure!(page.status == StatusCode::OK && page.text.contains("Allow"), "{}", page.text);
        let names = [
            "client_id",
            "response_type",
            "redirect_uri",
            "state",
            "code_challenge",
            "code_challenge_method",
            "client_name",
            "csrf",
        ];
        let values: Vec<(&str, String)> = names.iter().map(|n| (*n, hidden(&page.text, n))).collect();
        let mut fields: Vec<(&str, &str)> = values.iter().map(|(n, v)| (*n, v.as_str())).collect();
        fields.push(("decision", "allow"));
        let page = self.send(Method::POST, &address.join("/oauth/authorize")?, Some(&fields))?;
        Ok(Url::parse(&Self::continued(&page)?)?)
    }

    /// Lets a device in that shows the code in this address.
    pub(crate) fn allow_device(&mut self, address: &Url) -> Result<()> {
        let page = self.get(address)?;
        ensure!(page.status == StatusCode::OK && page.text.contains("Allow"), "{}", page.text);
        let values = ["user_code", "csrf"].map(|name| (name, hidden(&page.text, name)));
        let mut fields: Vec<(&str, &str)> = values.iter().map(|(n, v)| (*n, v.as_str())).collect();
        fields.push(("decision", "allow"));
        let page = self.send(Method::POST, &address.join("/device")?, Some(&fields))?;
        ensure!(page.text.contains("The machine is signed in"), "{} {}", page.status, page.text);
        Ok(())
    }

    /// Where a page goes on to by itself.
    pub(crate) fn continued(page: &Page) -> Result<String> {
        let target = page.text.split("content=\"0;url=").nth(1).and_then(|rest| rest.split('"').next());
        let target = target.with_context(|| format!("{}: {}", page.status, page.text))?;
        Ok(target.replace("&#x2f;", "/").replace("&amp;", "&"))
    }
}

fn hidden(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let value = page.split(&mark).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    value.replace("&#x2f;", "/").replace("&amp;", "&")
}

pub(crate) fn api(browser: &mut Browser, portal: &Url, path: &str) -> Result<(StatusCode, Value)> {
    let page = browser.get(&portal.join(path)?)?;
    Ok((page.status, serde_json::from_str(&page.text).unwrap_or(Value::Null)))
}

#[test]
fn people_sign_in_at_their_provider_and_end_with_it() -> Result<()> {
    let log = [("VCTL_LOG", "info,vctl_portal=debug,vctl_vcluster=debug,vctl_runtime=debug")];
    let mut company = Company::start(Workers::Simulated, &log)?;
    let portal = company.portal.clone();

    let [portal_authority, provider_authority] = company.authorities();
    let authorities = [portal_authority.as_path(), provider_authority.as_path()];
    let mut secrets = vec![SECRET.to_owned()];
    let mut alice = Browser::new(&authorities)?;
    let page = alice.get(&portal.join("/environments/x")?)?;
    ensure!(page.status == StatusCode::UNAUTHORIZED && page.text.contains("The company"), "{}", page.text);
    let start = portal.join("/auth/start?issuer=corp&next=/environments/x")?;

    // Another browser with a callback that is not its own, a wrong issuer, a state nobody has.
    let callback = alice.up_to_callback(&start, "alice")?;
    let mut mallory = Browser::new(&authorities)?;
    ensure!(mallory.get(&callback)?.status == StatusCode::UNAUTHORIZED, "a callback of another browser");
    let page = alice.get(&callback)?;
    ensure!(page.status == StatusCode::OK, "{}", page.text);
    ensure!(Browser::continued(&page)? == "/environments/x", "{}", page.text);
    ensure!(alice.get(&callback)?.status == StatusCode::UNAUTHORIZED, "a state that comes twice");
    let of = |url: &Url, name: &str| {
        url.query_pairs().find(|(n, _)| n == name).map(|(_, v)| v.into_owned()).unwrap_or_default()
    };
    ensure!(of(&callback, "iss") == company.provider.issuer, "{callback}");
    secrets.extend([of(&callback, "code"), of(&callback, "state")]);
    let mut mixed = mallory.up_to_callback(&start, "alice")?;
    let pairs: Vec<(String, String)> = mixed.query_pairs().into_owned().filter(|(n, _)| n != "iss").collect();
    mixed.query_pairs_mut().clear().extend_pairs(&pairs).append_pair("iss", "https://evil.example");
    ensure!(mallory.get(&mixed)?.text.contains("another identity provider"), "an answer of another issuer");
    let mut forged = mallory.up_to_callback(&start, "alice")?;
    let pairs: Vec<(String, String)> = forged.query_pairs().into_owned().filter(|(n, _)| n != "code").collect();
    forged.query_pairs_mut().clear().extend_pairs(&pairs).append_pair("code", &of(&callback, "code"));
    ensure!(mallory.get(&forged)?.status == StatusCode::UNAUTHORIZED, "a code that comes twice");
    ensure!(mallory.get(&portal.join("/api/v1/identity")?)?.status == StatusCode::UNAUTHORIZED, "mallory has nothing");

    let (status, me) = api(&mut alice, &portal, "/api/v1/identity")?;
    ensure!(status == StatusCode::OK && me["user"] == "corp:alice" && me["actor"] == "alice@example.com", "{me}");
    ensure!(me["groups"] == json!(["developers", "everyone"]), "{me}");
    // A refresh before this has ended would be the first one too many: the provider has already given the next token.
    company.provider.tell("groups alice everyone")?;
    wait::until("a removed group is gone", Duration::from_mins(1), || {
        let (_, me) = api(&mut alice, &portal, "/api/v1/identity").map_err(|e| e.to_string())?;
        if me["groups"] == json!(["everyone"]) { Ok(()) } else { Err(me.to_string()) }
    })?;

    // The command line of alice: through her browser, with a click.
    let context = portal.authority().to_owned();
    let (mut login, address) = company.begin_login()?;
    let loopback = alice.allow(&address)?;
    secrets.push(of(&loopback, "code"));
    ensure!(alice.get(&loopback)?.text.contains("signed in"), "the loopback page");
    let (code, said) = login.end(Duration::from_mins(1))?;
    ensure!(code == 0, "vctl login: {said}");
    let remote = |args: &[&str]| company.platform.vctl(&[&["--context", &context], args].concat());
    let me: Value = serde_json::from_str(&remote(&["whoami", "-o", "json"])?.ok()?)?;
    ensure!(me["user"] == "corp:alice" && me["credential"] == "access-token", "{me}");
    let file = std::fs::read_to_string(company.platform.scratch().join(".config/vctl/config.yaml"))?;
    for key in ["refreshToken: ", "accessToken: "] {
        secrets.push(file.split(key).nth(1).and_then(|r| r.lines().next()).context("a token")?.to_owned());
    }

    // An environment that is shared with her; its kubeconfig is a plugin.
    company.platform.create("mine", "blank", &[])?;
    let administrator = std::fs::read_to_string(company.platform.data_dir().join("admin.token"))?.trim().to_owned();
    let shared = alice.runtime.block_on(async {
        let request =
            alice.http.put(portal.join("/api/v1/environments/mine/shares/corp:alice")?).bearer_auth(&administrator);
        anyhow::Ok(request.json(&json!({"access": "admin"})).send().await?)
    })?;
    ensure!(shared.status() == StatusCode::OK, "shared: {}", shared.status());
    let kubeconfig = remote(&["kubeconfig", "mine"])?.ok()?;
    ensure!(
        kubeconfig.contains("client.authentication.k8s.io/v1") && !kubeconfig.contains("client-key-data"),
        "{kubeconfig}"
    );
    let path = company.platform.scratch().join("mine.kubeconfig");
    std::fs::write(&path, &kubeconfig)?;
    let kubectl = Kubectl::new("1.33", &path, company.platform.scratch())?;
    let said: Value = serde_json::from_str(&kubectl.ok(&["auth", "whoami", "-o", "json"])?)?;
    ensure!(said["status"]["userInfo"]["username"] == "alice@example.com", "{said}");
    kubectl.ok(&["create", "configmap", "x"])?;
    let token: Value = serde_json::from_str(&remote(&["token", "--environment", "mine"])?.ok()?)?;
    secrets.push(token["status"]["token"].as_str().context("a token")?.to_owned());
    let fixed = remote(&["kubeconfig", "mine", "--static", "--ttl", "1h"])?.ok()?;
    secrets.push(fixed.split("token: ").nth(1).and_then(|r| r.lines().next()).context("a token")?.to_owned());
    let path = company.platform.scratch().join("fixed.kubeconfig");
    std::fs::write(&path, &fixed)?;
    let ci = Kubectl::new("1.33", &path, company.platform.scratch())?;
    ci.ok(&["get", "configmaps", "x"])?;
    let key = remote(&["api-key", "create", "ci", "--ttl", "1h", "--verbs", "read"])?.ok()?.trim().to_owned();
    secrets.push(key);

    // Disabled here: nothing counts at the next request. Enabled again: all of it does.
    company.platform.vctl(&["user", "disable", "corp:alice"])?.ok()?;
    kubectl.run(&["get", "configmaps"])?.refused()?;
    ci.run(&["get", "configmaps"])?.refused()?;
    ensure!(remote(&["whoami"])?.code == 5, "the command line");
    ensure!(api(&mut alice, &portal, "/api/v1/identity")?.0 == StatusCode::UNAUTHORIZED, "the browser");
    company.platform.vctl(&["user", "enable", "corp:alice"])?.ok()?;
    kubectl.ok(&["get", "configmaps"])?;

    // Signed out here and there: the provider tells the portal, and the command line that hangs on the sign-in ends.
    let (_, session) = api(&mut alice, &portal, "/api/v1/session")?;
    let csrf = session["csrfToken"].as_str().map(str::to_owned).with_context(|| session.to_string())?;
    let page = alice.send(Method::POST, &portal.join("/logout")?, Some(&[("csrf", &csrf)]))?;
    let end = Url::parse(&Browser::continued(&page)?)?;
    secrets.push(of(&end, "id_token_hint"));
    let page = alice.get(&end)?;
    let xsrf = page.text.split("name=\"xsrf\" value=\"").nth(1).and_then(|r| r.split('"').next());
    let xsrf = xsrf.with_context(|| page.text.clone())?.to_owned();
    let confirm = Url::parse(&format!("{}/session/end/confirm", company.provider.issuer))?;
    alice.send(Method::POST, &confirm, Some(&[("xsrf", &xsrf), ("logout", "yes")]))?;
    wait::until("the back-channel logout ends the command line's login", Duration::from_mins(1), || {
        let out = remote(&["whoami"]).map_err(|e| e.to_string())?;
        if out.code == 5 { Ok(()) } else { Err(format!("exit code {}: {}{}", out.code, out.stdout, out.stderr)) }
    })?;
    kubectl.run(&["get", "configmaps"])?.refused()?;

    // Removed at the provider: the session ends with the next refresh.
    let mut bob = Browser::new(&authorities)?;
    let callback = bob.up_to_callback(&start, "bob")?;
    ensure!(bob.get(&callback)?.status == StatusCode::OK, "bob signs in");
    ensure!(api(&mut bob, &portal, "/api/v1/identity")?.0 == StatusCode::OK, "bob is in");
    company.provider.tell("remove bob")?;
    wait::until("bob is out", Duration::from_mins(1), || {
        let status = api(&mut bob, &portal, "/api/v1/identity").map_err(|e| e.to_string())?.0;
        if status == StatusCode::UNAUTHORIZED { Ok(()) } else { Err(status.to_string()) }
    })?;

    // The provider is away: whoever is in goes on, and others see a page that says so.
    let mut again = Browser::new(&authorities)?;
    let callback = again.up_to_callback(&start, "alice")?;
    ensure!(again.get(&callback)?.status == StatusCode::OK, "alice signs in again");
    company.provider.kill()?;
    wait::until("the provider was asked in vain", Duration::from_mins(1), || {
        let (status, _) = api(&mut again, &portal, "/api/v1/identity").map_err(|e| e.to_string())?;
        assert_eq!(status, StatusCode::OK, "the last groups stand");
        let asked = company.platform.log().contains("an issuer cannot be asked about a sign-in");
        if asked { Ok(()) } else { Err("not yet".to_owned()) }
    })?;
    // The server forgets what it knew of the provider when it starts again: nobody can sign in.
    ensure!(company.platform.stop_server()? == 0, "the server stops");
    company.platform.start_server()?;
    ensure!(api(&mut again, &portal, "/api/v1/identity")?.0 == StatusCode::OK, "also after a start");
    let page = again.get(&start)?;
    ensure!(
        page.status == StatusCode::SERVICE_UNAVAILABLE && page.text.contains("The company cannot be reached"),
        "{}",
        page.text
    );

    // What nobody may read is nowhere.
    let values: Vec<String> = [&alice, &bob, &again].iter().flat_map(|b| b.cookies.values().cloned()).collect();
    secrets.extend(values);
    let written = company.platform.log();
    let audit = again.runtime.block_on(async {
        again
            .http
            .get(portal.join("/api/v1/audit?limit=500")?)
            .bearer_auth(&administrator)
            .send()
            .await?
            .text()
            .await
            .map_err(anyhow::Error::from)
    })?;
    secrets.push(administrator);
    ensure!(audit.contains("user.disable") && audit.contains("api-key.create"), "{audit}");
    for secret in secrets.iter().filter(|s| s.len() >= 16) {
        ensure!(!written.contains(secret.as_str()), "the log has {secret}");
        ensure!(!audit.contains(secret.as_str()), "the audit trail has {secret}");
    }
    Ok(())
}
