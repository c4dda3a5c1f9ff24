//! SCRAM (RFC 5802, RFC 7677), the client's side.

use std::num::NonZeroU32;

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{digest, hmac, pbkdf2};

/// A server that asks for more iterations wants to keep us busy.
const ITERATIONS_LIMIT: u32 = 1_000_000;

/// The hash that both sides use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// One exchange.
pub(super) struct Scram {
    hash: Hash,
    nonce: String,
    first: String,
    expected: String,
}

impl Scram {
    /// For a user; empty when the protocol around it has named the user.
    pub(super) fn new(hash: Hash, user: &str) -> Self {
        let nonce = STANDARD.encode(rand::random::<[u8; 18]>());
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        Self { hash, nonce, first, expected: String::new() }
    }

    /// The client's first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The client's final message, with the proof that it knows the password; none when what the server said makes no sense.
    pub(super) fn last(&mut self, server_first: &str, password: &str) -> Option<String> {
        let combined = value(server_first, "r=");
        let salt = STANDARD.decode(value(server_first, "s=")).unwrap_or_default();
        let rounds = value(server_first, "i=").parse::<u32>().ok().filter(|i| *i <= ITERATIONS_LIMIT)?;
        let rounds = NonZeroU32::new(rounds)?;
        if !combined.starts_with(&self.nonce) || salt.is_empty() {
            return None;
        }
        let (derivation, mac, hash, length) = match self.hash {
            Hash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256, digest::SHA256_OUTPUT_LEN),
            Hash::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(derivation, rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(mac, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(hash, client_key.as_ref());
        let bare = format!("c=biws,r={combined}");
        let transcript = format!("{},{server_first},{bare}", self.first);
        let signature = sign(stored.as_ref(), transcript.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = sign(&salted, b"Server Key");
        self.expected = STANDARD.encode(sign(server_key.as_ref(), transcript.as_bytes()));
        Some(format!("{bare},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server's final message shows that it knows the password too.
    pub(super) fn is_proved(&self, server_final: &str) -> bool {
        !self.expected.is_empty() && value(server_final, "v=") == self.expected
    }
}

fn value(text: &str, name: &str) -> String {
    text.split(',').find_map(|part| part.strip_prefix(name)).map(str::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_rfc_is_ours() {
        let mut scram = Scram::new(Hash::Sha256, "user");
        "rOprNGfwEbeRWgbNEkqO".clone_into(&mut scram.nonce);
        "n=user,r=rOprNGfwEbeRWgbNEkqO".clone_into(&mut scram.first);
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = scram.last(server, "pencil").expect("makes sense");
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(scram.is_proved("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proved("v=") && !scram.is_proved("e=other-error"));
    }

    #[test]
    fn what_makes_no_sense_is_not_answered() {
        for server in
            ["", "r=other,s=W22Z,i=4096", "r=NONCE,s=,i=4096", "r=NONCE,s=W22Z,i=99999999", "r=NONCE,s=W22Z,i=0"]
        {
            let mut scram = Scram::new(Hash::Sha512, "");
            let server = server.replace("NONCE", &scram.nonce);
            assert_eq!(scram.last(&server, "x"), None, "{server}");
            assert!(!scram.is_proved("v="));
        }
    }
}
