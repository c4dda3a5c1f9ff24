//! Sign-in at OpenID Connect providers: authorization code with PKCE, nonce and state.
//!
//! * [`config`]: the issuers, as `vctl up --oidc-config FILE` names them.
//! * [`provider`]: what is asked of a provider: its metadata and keys, codes and refresh tokens exchanged, tokens verified.
//! * [`claims`]: what its tokens say of a person.
//! * [`browser`]: a browser's way to the provider and back.
//! * [`logout`]: sign-out that the provider knows of, begun here or there.

mod browser;
pub(crate) mod claims;
pub mod config;
mod logout;
pub(crate) mod provider;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use jiff::SignedDuration;

pub(crate) use self::browser::{AUTHORIZATION_LIFE, Callback, local_path};
use self::{config::OidcConfig, provider::Provider};

/// The configured issuers.
#[derive(Default)]
pub(crate) struct Issuers {
    by_name: BTreeMap<String, Arc<Provider>>,
    /// So often at most an issuer is asked whether a sign-in still counts.
    pub(crate) refresh_interval: SignedDuration,
    /// So long what an issuer said last counts while it cannot be reached.
    pub(crate) grace: SignedDuration,
    /// So long a sign-in counts that cannot be refreshed.
    pub(crate) without_refresh: SignedDuration,
}

/// An issuer as the sign-in page shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) title: String,
}

impl Issuers {
    pub(crate) fn new(config: Option<OidcConfig>, public_url: &str) -> Self {
        let Some(config) = config else { return Self::default() };
        let OidcConfig { refresh_interval, grace, without_refresh, issuers } = config;
        let provider = |(name, issuer): (String, config::IssuerConfig)| {
            let provider = Provider::new(&name, issuer, public_url);
            (name, Arc::new(provider))
        };
        Self { by_name: issuers.into_iter().map(provider).collect(), refresh_interval, grace, without_refresh }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Provider>> {
        self.by_name.get(name)
    }

    /// All, as the sign-in page shows them.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let offer = |(name, provider): (&String, &Arc<Provider>)| Offer {
            name: name.clone(),
            title: provider.title().to_owned(),
        };
        self.by_name.iter().map(offer).collect()
    }
}
