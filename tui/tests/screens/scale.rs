//! How much is done for a key and a frame when there are 10,000 rows: counted, because a loaded machine cannot be timed.

use vctl_tui::{
    model::{Data, Document, View},
    state::Settings,
};

use crate::dash::{Dash, environments};

const ROWS: usize = 10_000;

fn large() -> Dash {
    let mut dash = Dash::with(Settings::default(), 120, 40);
    let names: Vec<String> = (0..ROWS).map(|i| format!("env-{i:05}")).collect();
    let rows: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "Ready", "")).collect();
    dash.data(environments(&rows));
    dash
}

#[test]
fn a_frame_and_a_key_touch_what_is_on_the_screen() {
    let mut dash = large();
    let passes = |dash: &Dash| dash.state.table(&View::Environments).map(|t| t.passes());
    assert_eq!(passes(&dash), Some(1));
    for (keys, expected) in [
        ("", "env-00000"),
        ("G", "env-09999"),
        ("kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", "env-09962"),
        ("g", "env-00033"),
        ("w", "env-00000"),
    ] {
        dash.keys(keys);
        assert!(dash.screen().contains(expected), "{expected} after {keys}");
        assert!(dash.work <= 34 * 9, "{} cells after {keys}", dash.work);
        assert_eq!(passes(&dash), Some(1), "after {keys}: nothing looks at all rows");
    }
    // A filter looks at every row once for each letter.
    dash.keys("/0999\n");
    assert_eq!(passes(&dash), Some(5));
    assert!(dash.screen().contains("(11 of 10000)"), "{}", dash.screen());
}

/// What it takes on this machine, for whoever wants to know (`--nocapture`): nothing depends on it.
#[test]
fn what_a_frame_takes_is_printed() {
    let time = |what: &str, act: &mut dyn FnMut()| {
        let begun = std::time::Instant::now();
        act();
        println!("{what}: {:.2} ms", begun.elapsed().as_secs_f64() * 1000.0);
    };
    let mut dash = large();
    time("a frame of 10,000 rows", &mut || drop(dash.screen()));
    time("a key", &mut || drop(dash.keys("G")));
    time("a filter", &mut || drop(dash.keys("/99")));
    dash.keys("\n");
    let names: Vec<String> = (0..ROWS).map(|i| format!("env-{i:05}")).collect();
    let rows: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "Ready", "")).collect();
    let news = environments(&rows);
    time("new rows", &mut || drop(dash.data(news.clone())));
}

#[test]
fn a_frame_of_a_long_log_touches_what_is_on_the_screen() {
    let mut dash = large();
    dash.data(Data::Table { view: View::Jobs, environment: None, columns: Vec::new(), rows: Vec::new() });
    let id = match dash.keys("d").as_slice() {
        [vctl_tui::update::Effect::Ask(vctl_tui::model::Request::Open { page, document: Document::Describe(_) })] => {
            *page
        }
        other => panic!("{other:?}"),
    };
    let line = "x".repeat(300);
    dash.data(Data::Lines { page: id, lines: vec![line; ROWS] });
    for keys in ["", "G", "w", "g", "/y"] {
        dash.keys(keys);
        dash.screen();
        assert!(dash.work <= 40, "{} lines after {keys}", dash.work);
    }
}

#[test]
fn the_cursor_stays_on_what_it_was_on() {
    let mut dash = large();
    dash.keys("G");
    let names: Vec<String> = (1..ROWS).map(|i| format!("env-{i:05}")).collect();
    let rows: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "Ready", "")).collect();
    dash.data(environments(&rows));
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("env-09999"));
    dash.data(environments(&rows[..3]));
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("env-00003"), "the last that is left");
}
