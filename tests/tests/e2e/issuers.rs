//! Sign-in with several issuers, each a real OpenID Connect provider (npm `oidc-provider`).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use vctl_tests::{platform::Workers, wait};

use crate::{
    company::Company,
    sign_in::{Browser, api},
};

const LIMIT: Duration = Duration::from_mins(1);

/// The value of a parameter of an address.
fn of(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(n, _)| n == name).map(|(_, v)| v.into_owned()).unwrap_or_default()
}

/// An address with other values of some parameters; none takes one out.
fn with(url: &Url, changes: &[(&str, Option<&str>)]) -> Url {
    let kept = url.query_pairs().into_owned().filter(|(n, _)| !changes.iter().any(|(name, _)| name == n));
    let kept: Vec<(String, String)> = kept.collect();
    let mut changed = url.clone();
    let new = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    changed.query_pairs_mut().clear().extend_pairs(&kept).extend_pairs(new);
    changed
}

#[test]
fn people_of_two_issuers_are_kept_apart() -> Result<()> {
    let mut company = Company::start_with_partner(Workers::Simulated)?;
    let portal = company.portal.clone();
    let partner = company.partner.as_ref().context("a partner")?;
    let authorities = [company.authority.clone(), company.provider.authority.clone(), partner.authority.clone()];
    let authorities: Vec<&std::path::Path> = authorities.iter().map(std::path::PathBuf::as_path).collect();
    let [corp, other] =
        ["corp", "partner"].map(|issuer| portal.join(&format!("/auth/start?issuer={issuer}&next=/environments/x")));
    let (corp, other) = (corp?, other?);
    let (corp_url, partner_url) = (company.provider.issuer.clone(), partner.issuer.clone());

    // Whoever is not signed in chooses; an issuer that nobody has is told with the nearest name.
    let mut alice = Browser::new(&authorities)?;
    let page = alice.get(&portal.join("/login")?)?;
    ensure!(page.text.contains("The company") && page.text.contains("A partner"), "{}", page.text);
    let page = alice.get(&portal.join("/auth/start?issuer=partnr&next=/")?)?;
    ensure!(page.status == StatusCode::NOT_FOUND && page.text.contains("partner"), "{}: {}", page.status, page.text);

    // Mix-up: to the sign-in that began at one, the code that another one gave for it, whatever is said of where it comes from.
    let mut mallory = Browser::new(&authorities)?;
    for (iss, why) in [
        (Some(partner_url.as_str()), "another identity provider"),
        (None, "another identity provider"),
        (Some(corp_url.as_str()), "the identity provider refused"),
    ] {
        // The state of a sign-in that has begun is bound to the browser's newest cookie.
        let code = of(&mallory.up_to_callback(&other, "alice")?, "code");
        let callback = mallory.up_to_callback(&corp, "alice")?;
        ensure!(of(&callback, "iss") == corp_url, "{callback}");
        let mixed = with(&callback, &[("code", Some(&code)), ("iss", iss)]);
        let page = mallory.get(&mixed)?;
        ensure!(page.status == StatusCode::UNAUTHORIZED && page.text.contains(why), "{iss:?}: {}", page.text);
        // It is used up, also for the code that is right.
        ensure!(mallory.get(&callback)?.status == StatusCode::UNAUTHORIZED, "{iss:?}");
    }
    ensure!(api(&mut mallory, &portal, "/api/v1/identity")?.0 == StatusCode::UNAUTHORIZED, "mallory has nothing");

    // The same subject at both is two people.
    let sign_in = |browser: &mut Browser, start: &Url| -> Result<()> {
        let callback = browser.up_to_callback(start, "alice")?;
        let page = browser.get(&callback)?;
        ensure!(page.status == StatusCode::OK, "{}: {}", page.status, page.text);
        Ok(())
    };
    let who = |browser: &mut Browser| -> Result<Value> { Ok(api(browser, &portal, "/api/v1/identity")?.1) };
    sign_in(&mut alice, &corp)?;
    let mut namesake = Browser::new(&authorities)?;
    sign_in(&mut namesake, &other)?;
    let (one, two) = (who(&mut alice)?, who(&mut namesake)?);
    ensure!(one["user"] == "corp:alice" && two["user"] == "partner:alice", "{one} {two}");
    ensure!(one["actor"] == two["actor"], "even with the same address: {one} {two}");
    company.platform.create("mine", "blank", &[])?;
    let share = ["share", "mine", "corp:alice"];
    company.platform.vctl(&share)?.ok()?;
    let seen = "/api/v1/environments/mine";
    ensure!(api(&mut alice, &portal, seen)?.0 == StatusCode::OK, "shared with her");
    ensure!(api(&mut namesake, &portal, seen)?.0 == StatusCode::NOT_FOUND, "not with her namesake");
    company.platform.vctl(&["user", "disable", "partner:alice"])?.ok()?;
    ensure!(api(&mut namesake, &portal, "/api/v1/identity")?.0 == StatusCode::UNAUTHORIZED, "disabled");
    ensure!(api(&mut alice, &portal, "/api/v1/identity")?.0 == StatusCode::OK, "another one");
    company.platform.vctl(&["user", "enable", "partner:alice"])?.ok()?;

    // A session that is replaced ends, also by a sign-in at another issuer.
    let mut thief = Browser::new(&authorities)?;
    thief.cookies.clone_from(&alice.cookies);
    ensure!(who(&mut thief)?["user"] == "corp:alice", "a copy of her session");
    sign_in(&mut alice, &other)?;
    ensure!(who(&mut alice)?["user"] == "partner:alice", "her new session");
    ensure!(api(&mut thief, &portal, "/api/v1/identity")?.0 == StatusCode::UNAUTHORIZED, "the copy has ended");

    // The command line names the issuer.
    let (mut login, address) = company.begin_login_with(&["--issuer", "corp"])?;
    ensure!(address.path() == "/auth/start" && of(&address, "issuer") == "corp", "{address}");
    let callback = namesake.up_to_callback(&address, "alice")?;
    let page = namesake.get(&callback)?;
    let asked = portal.join(&Browser::continued(&page)?)?;
    let loopback = namesake.allow(&asked)?;
    ensure!(namesake.get(&loopback)?.text.contains("signed in"), "the loopback page");
    let (code, said) = login.end(LIMIT)?;
    ensure!(code == 0, "vctl login: {said}");
    let context = portal.authority().to_owned();
    let me = company.platform.vctl(&["--context", &context, "whoami", "-o", "json"])?.ok()?;
    let me: Value = serde_json::from_str(&me)?;
    ensure!(me["user"] == "corp:alice", "{me}");

    // A provider that signs with another key: the keys are fetched again, though not at once when they were just fetched. The other one goes on.
    company.partner.as_mut().context("a partner")?.tell("rotate")?;
    sign_in(&mut Browser::new(&authorities)?, &corp)?;
    wait::until("the new key counts", LIMIT, || {
        sign_in(&mut Browser::new(&authorities).map_err(|e| e.to_string())?, &other).map_err(|e| format!("{e:#}"))
    })?;
    let users = company.platform.vctl(&["user", "list", "-o", "json"])?.ok()?;
    let users: Value = serde_json::from_str(&users)?;
    let ids: Vec<&Value> = users.as_array().into_iter().flatten().map(|u| &u["id"]).collect();
    ensure!(ids == [&json!("corp:alice"), &json!("partner:alice")], "{users}");
    Ok(())
}
