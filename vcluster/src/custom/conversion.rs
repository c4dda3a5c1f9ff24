//! Conversion of custom resources between the versions of their definition, by the webhook that the definition names
//! (`spec.conversion.strategy: Webhook`). Source of rules and texts: apiextensions-apiserver `pkg/apiserver/conversion`.
//!
//! Objects are stored in the version that was the storage version when they were written. Whatever is read in another one is converted;
//! what comes of it is kept for as long as the definition says the same, so that a watcher more is no call more.

mod cache;
mod review;

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::Value;
use vctl_machinery::{crd::Version, status::ApiError};
use vctl_store::Revision;

use self::cache::Cache;
use super::{compiled, names};
use crate::{
    document::{meta, set_meta},
    outbound,
    plane::Plane,
};

/// How long a webhook may take: upstream's default for webhooks without a timeout of their own.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects that are asked about at once.
const MAX_OBJECTS: usize = 500;

/// The webhooks of a cluster's definitions, by the resources they convert.
#[derive(Default)]
pub(crate) struct Converters(HashMap<String, Arc<Converter>>);

impl Converters {
    /// From the definitions; those of `before` whose definitions say the same are kept, with what they know.
    pub(crate) fn new(definitions: &[Value], before: Option<&Self>) -> Self {
        let webhook = |d: &&Value| d["spec"]["conversion"]["strategy"] == "Webhook" && names::is_true(d, "Established");
        let of = |definition: &Value| {
            let (name, of) = (meta(definition, "name").to_owned(), Converter::state(definition));
            let kept = before.and_then(|b| b.0.get(&name)).filter(|c| c.of == of).cloned();
            (name, kept.unwrap_or_else(|| Arc::new(Converter::new(definition, of))))
        };
        Self(definitions.iter().filter(webhook).map(of).collect())
    }

    /// The webhook of a group-resource; none when versions differ in their name only.
    pub(crate) fn get(&self, resource: &str) -> Option<Arc<Converter>> {
        self.0.get(resource).cloned()
    }
}

/// The webhook of one definition.
pub(crate) struct Converter {
    /// Which state of the definition it was made of.
    of: (String, i64),
    group: String,
    client: Result<outbound::Hook, String>,
    /// The first ConversionReview version of its list that is known here.
    review: Option<&'static str>,
    /// Name of the storage version, and its schema.
    storage: Option<(String, Arc<Version>)>,
    cache: Cache,
}

/// An error that upstream has no reason for.
fn failed(message: String) -> ApiError {
    ApiError { code: 500, reason: "", message, details: Value::Null }
}

impl Converter {
    fn state(definition: &Value) -> (String, i64) {
        (meta(definition, "uid").to_owned(), definition["metadata"]["generation"].as_i64().unwrap_or_default())
    }

    fn new(definition: &Value, of: (String, i64)) -> Self {
        let spec = &definition["spec"];
        let webhook = &spec["conversion"]["webhook"];
        let stored = spec["versions"].as_array().into_iter().flatten().find(|v| v["storage"] == true);
        let mut known = webhook["conversionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self {
            of,
            group: spec["group"].as_str().unwrap_or_default().to_owned(),
            client: outbound::Hook::new(&webhook["clientConfig"]).map_err(|e| e.to_string()),
            review: known.find_map(|v| ["v1", "v1beta1"].into_iter().find(|k| *k == v)),
            storage: stored.map(|v| (v["name"].as_str().unwrap_or_default().to_owned(), compiled(spec, v))),
            cache: Cache::default(),
        }
    }

    fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }

    /// Brings stored objects (each with the revision it was written at) into a version, in place. What is in that version already is
    /// let be.
    ///
    /// # Errors
    /// The webhook cannot be asked, or what it answers is no conversion.
    pub(crate) async fn read(
        &self,
        plane: &Arc<Plane>,
        objects: &mut [(Value, Revision)],
        version: &str,
    ) -> Result<(), ApiError> {
        let wanted = self.api_version(version);
        let mut left: Vec<usize> = (0..objects.len()).filter(|i| objects[*i].0["apiVersion"] != wanted).collect();
        while !left.is_empty() {
            let keys = left.iter().map(|i| (*i, cache::Key::new(&objects[*i].0, objects[*i].1, version)));
            let claim = self.cache.claim(keys);
            for (i, bytes) in claim.found {
                let known = serde_json::from_slice(&bytes).map_err(ApiError::internal)?;
                replace(&mut objects[i].0, known);
            }
            for chunk in claim.mine.chunks(MAX_OBJECTS) {
                let asked: Vec<Value> = chunk.iter().map(|(i, _)| without_version(&objects[*i].0)).collect();
                let answers = self.ask(plane, &asked, &wanted).await?;
                for ((i, key), answer) in chunk.iter().zip(answers) {
                    self.cache.put(key.clone(), &answer);
                    replace(&mut objects[*i].0, answer);
                }
            }
            // Whoever waits for ours goes on before we wait for theirs.
            drop(claim.guard);
            for mut other in claim.others {
                // An error says that the other one is done, too.
                let _ = other.changed().await;
            }
            left = claim.left;
        }
        Ok(())
    }

    /// An object in the version in which it is stored.
    ///
    /// # Errors
    /// As [`Converter::read`].
    pub(crate) async fn store(&self, plane: &Arc<Plane>, object: &Value) -> Result<Value, ApiError> {
        let Some((version, schema)) = &self.storage else { return Ok(object.clone()) };
        let mut stored = self.convert(plane, object, version).await?;
        // What the version does not know is not stored; its defaults are filled in when it is read.
        schema.decode(&mut stored).map_err(failed)?;
        Ok(stored)
    }

    /// An object that is not stored in another version.
    ///
    /// # Errors
    /// As [`Converter::read`].
    pub(crate) async fn convert(&self, plane: &Arc<Plane>, object: &Value, version: &str) -> Result<Value, ApiError> {
        let wanted = self.api_version(version);
        if object["apiVersion"] == wanted {
            return Ok(object.clone());
        }
        let mut converted = object.clone();
        for answer in self.ask(plane, &[without_version(object)], &wanted).await? {
            replace(&mut converted, answer);
        }
        Ok(converted)
    }

    /// Has the webhook convert objects; none of them is in the wanted version.
    async fn ask(&self, plane: &Arc<Plane>, objects: &[Value], wanted: &str) -> Result<Vec<Value>, ApiError> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let Some(version) = self.review else { return Err(failed("no supported conversion review versions".into())) };
        let by = format!("conversion webhook for {}", review::kind(first));
        let uid = uuid::Uuid::new_v4().to_string();
        let client = self.client.as_ref().map_err(|why| failed(format!("{by} failed: {why}")))?;
        let answer = client
            .post(plane, &review::request(version, &uid, wanted, objects), TIMEOUT)
            .await
            .map_err(|e| failed(format!("{by} failed: {e}")))?;
        let mut converted =
            review::converted(answer, version, &uid).map_err(|e| failed(format!("{by} failed: {e}")))?;
        if converted.len() != objects.len() {
            return Err(failed(format!("{by} returned {} objects, expected {}", converted.len(), objects.len())));
        }
        for (i, (new, old)) in converted.iter_mut().zip(objects).enumerate() {
            review::accept(old, new, wanted, (objects.len() > 1).then_some(i))
                .map_err(|why| failed(format!("{by} returned {why}")))?;
        }
        Ok(converted)
    }
}

/// Webhooks see objects as they are stored.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    set_meta(&mut object, "resourceVersion", None);
    object
}

/// Takes over what an object was converted to. Its resourceVersion is the reader's business.
fn replace(object: &mut Value, mut converted: Value) {
    set_meta(&mut converted, "resourceVersion", object.pointer("/metadata/resourceVersion").cloned());
    *object = converted;
}
