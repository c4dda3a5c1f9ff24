//! End-to-end tests: the real `vctl` binary with real clients. Tests whose name contains `podman` run real containers.

mod backup;
mod bad_input;
mod client;
mod console;
mod containers_podman;
mod copies_podman;
mod crash;
mod custom_resources;
mod dash;
mod golden;
mod kubectl;
mod lifecycle;
mod limits;
mod oidc;
mod postgres;
mod readme;
mod resources;
mod rotate_ca;
mod sign_in;
mod templates;
mod tenant_servers_podman;
mod usage;
mod versions;
mod volumes;
mod whole_path;
mod workloads;
