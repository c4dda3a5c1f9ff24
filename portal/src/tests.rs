//! The portal as a whole, in process.

mod access;
mod approvals;
mod audit;
mod audit_requests;
mod authority;
mod backup;
mod bindings;
mod charts;
mod environments;
mod jobs;
mod kubernetes;
mod lifecycle;
mod permissions;
mod progress;
mod projects;
mod quotas;
mod rest;
mod sign_in;
mod sources;
mod updates;
mod webhooks;
mod yanked;
