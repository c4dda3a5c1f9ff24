//! The dashboard on a fake terminal: keys and data in, screens out.

mod dash;
mod pages;
mod scale;
mod tables;
