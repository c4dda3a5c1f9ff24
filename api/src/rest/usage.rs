//! What environments use of processors and memory, and how much their API is asked.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer of `GET /api/v1/environments/NAME/usage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageSeries {
    /// Name of the environment.
    pub environment: String,
    /// Beginning of the first step.
    pub since: Timestamp,
    /// End of the last step.
    pub until: Timestamp,
    /// Length of a step; a multiple of 60.
    pub step_seconds: u64,
    /// By time. A step in which nothing ran and nobody asked (or the server was away) has none.
    pub points: Vec<UsagePoint>,
}

/// What an environment used in one step of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsagePoint {
    /// When the step begins.
    pub at: Timestamp,
    /// Processors in billionths: the mean of the step's minutes.
    pub cpu_nano_cores: u64,
    /// Working set in bytes: the most of the step's minutes.
    pub memory_bytes: u64,
    /// Requests that its API server answered within the step, also those of its own pods.
    pub requests: u64,
}

/// An item of the answer of `GET /api/v1/usage`: the last whole minute of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentUsage {
    /// Name of the environment.
    pub environment: String,
    /// What it used.
    #[serde(flatten)]
    pub point: UsagePoint,
}
