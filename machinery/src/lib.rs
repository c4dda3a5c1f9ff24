//! Kubernetes API machinery as pure functions over JSON documents and one table of resource descriptors.
//!
//! Layer L0: no async runtime, no clock (time is passed in), no I/O.

pub mod amounts;
pub mod apply;
pub mod catalog;
pub mod cel;
pub mod crd;
pub mod cron;
pub mod defaults;
pub mod features;
pub mod flow_control;
pub mod image;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod pod_resources;
pub mod protobuf;
pub mod quantity;
pub mod requests;
pub mod schema;
pub mod selector;
mod shape;
pub mod status;
pub mod table;
pub mod validate;
pub mod version;
