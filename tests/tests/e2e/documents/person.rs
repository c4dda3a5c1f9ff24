//! Somebody at a browser.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use reqwest::{StatusCode, Url};

use crate::sign_in::Browser;

/// Somebody with an account at the identity provider, and a browser.
pub(super) struct Person {
    name: String,
    browser: Browser,
}

impl Person {
    pub(super) fn new(name: &str, authorities: &[PathBuf]) -> Result<Self> {
        let authorities: Vec<_> = authorities.iter().map(PathBuf::as_path).collect();
        Ok(Self { name: name.to_owned(), browser: Browser::new(&authorities)? })
    }

    /// Opens the link that `vctl login` prints, signs in at the provider, and allows it.
    pub(super) fn allow(mut self, link: &str) -> Result<()> {
        let link = Url::parse(link)?;
        let start = link.join("/auth/start?issuer=corp&next=/")?;
        let callback = self.browser.up_to_callback(&start, &self.name)?;
        let page = self.browser.get(&callback)?;
        ensure!(page.status == StatusCode::OK, "{} {}", page.status, page.text);
        let loopback = self.browser.allow(&link).context("allowing the command line")?;
        let page = self.browser.get(&loopback)?;
        ensure!(page.text.contains("signed in"), "{}", page.text);
        Ok(())
    }
}
