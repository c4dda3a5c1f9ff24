//! Tables: views, filters, sorting, the palette, the mouse.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{Terminal, backend::TestBackend};
use vctl_tui::{
    keys::KeyMap,
    model::{Column, Data, Kind, Object, Request, Subject, View},
    state::Settings,
    theme::Theme,
    update::{Effect, Message},
};

use crate::dash::{Dash, at_pods, environments, plain, pods, three};

fn show(view: View, environment: &str) -> Effect {
    Effect::Ask(Request::Show { view, environment: Some(environment.to_owned()) })
}

#[test]
fn nothing_is_known_yet() {
    insta::assert_snapshot!(Dash::new().screen());
}

#[test]
fn environments_with_their_phases() {
    insta::assert_snapshot!(three().screen());
}

#[test]
fn the_first_environment_is_followed_and_enter_follows_another() {
    let mut dash = Dash::new();
    let first = dash.data(environments(&[("alpha", "Ready", ""), ("beta", "Ready", "")]));
    assert_eq!(first, [show(View::Environments, "alpha")]);
    assert_eq!(dash.keys("j\n"), [show(View::Pods, "beta")]);
    dash.data(pods("alpha", &[("of-alpha", "1/1", "Running")]));
    assert!(dash.screen().contains("waiting"), "late news of another environment are not shown");
    dash.data(pods("beta", &[("web-7d4b9", "1/1", "Running"), ("redis-5f6c8", "0/1", "ImagePullBackOff")]));
    insta::assert_snapshot!(dash.screen());
    dash.data(environments(&[("alpha", "Ready", "")]));
    assert_eq!(dash.state.chosen.as_deref(), Some("alpha"), "what is gone cannot be looked at");
}

#[test]
fn everything_fits_80_columns_and_wide_shows_all() {
    let mut dash = Dash::with(Settings::default(), 80, 24);
    dash.data(environments(&[
        ("alpha", "Ready", ""),
        (
            "a-name-that-has-fifty-letters-and-not-one-fewer-ab",
            "Failed",
            "a message that is longer than any screen is wide",
        ),
    ]));
    for _ in 0..3 {
        dash.data(Data::Usage { environment: "alpha".to_owned(), cpu_millis: 250, memory_bytes: 64 << 20 });
    }
    dash.data(Data::Usage { environment: "alpha".to_owned(), cpu_millis: 500, memory_bytes: 128 << 20 });
    insta::assert_snapshot!("80_columns", dash.screen());
    dash.keys("w");
    insta::assert_snapshot!("80_columns_wide", dash.screen());
}

#[test]
fn without_utf8_and_colours_everything_can_be_read() {
    let theme = Theme::named("mono").expect("theme");
    let mut dash = Dash::with(Settings { ascii: true, theme, ..Settings::default() }, 80, 10);
    dash.data(environments(&[("alpha", "Ready", "größer als …")]));
    dash.data(Data::Usage { environment: "alpha".to_owned(), cpu_millis: 5, memory_bytes: 1 << 20 });
    let screen = dash.screen();
    assert!(screen.is_ascii(), "{screen}");
    let coloured = dash
        .terminal
        .backend()
        .buffer()
        .content
        .iter()
        .any(|cell| cell.fg != ratatui::style::Color::Reset || cell.bg != ratatui::style::Color::Reset);
    assert!(!coloured);
}

#[test]
fn filters_keep_and_drop_rows() {
    let mut dash = three();
    dash.keys("/GAM");
    insta::assert_snapshot!("filter_while_typing", dash.screen());
    dash.keys("\n");
    assert_eq!(dash.keys("\n"), [show(View::Pods, "gamma")], "enter takes what is shown");
    dash.keys("1\x1b/!ready\n");
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("gamma"), "beta's message says ready too");
    dash.keys("/^(alpha|beta)$\n");
    assert_eq!(dash.state.table(&View::Environments).map(|t| t.shown()), Some(2));
    dash.keys("/-l phase=Creating,owner in (ann)\n");
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("beta"));
    dash.keys("/-l phase in\n");
    assert!(dash.notice().contains("no label selector"), "{}", dash.notice());
    dash.keys("/zzz\n");
    insta::assert_snapshot!("filter_nothing_passes", dash.screen());
}

#[test]
fn the_palette_goes_places() {
    let mut dash = three();
    dash.keys(":");
    insta::assert_snapshot!("palette_open", dash.screen());
    assert_eq!(dash.keys("pods beta\n"), [show(View::Pods, "beta")]);
    dash.keys(":w\n");
    assert!(dash.notice().contains("workers or wake"), "{}", dash.notice());
    dash.keys(":wo\n");
    assert_eq!(dash.state.view, View::Workers);
    dash.keys(":nope\n");
    assert!(dash.notice().contains("there is no view, kind or command \"nope\""));
    dash.keys(":pods nobody\n");
    assert_eq!(dash.notice(), "there is no environment \"nobody\"");
    dash.keys(":evnets\n");
    assert!(dash.notice().contains("did you mean events?"), "{}", dash.notice());
    assert_eq!(dash.keys(":q\n"), [Effect::Quit]);
}

#[test]
fn any_kind_has_a_view() {
    let mut dash = three();
    let kind = |name: &str, aliases: &[&str]| Kind {
        name: name.to_owned(),
        aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
    };
    let kinds = vec![
        kind("deployments", &["deployment", "deploy"]),
        kind("pods", &["pod", "po"]),
        kind("widgets.example.com", &["widget"]),
    ];
    dash.data(Data::Kinds { environment: "alpha".to_owned(), kinds });
    assert_eq!(dash.keys(":deploy\n"), [show(View::Kind("deployments".to_owned()), "alpha")]);
    let object = Object {
        environment: "alpha".to_owned(),
        resource: "deployments".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        containers: Vec::new(),
    };
    dash.data(Data::Table {
        view: View::Kind("deployments".to_owned()),
        environment: Some("alpha".to_owned()),
        columns: ["NAMESPACE", "NAME", "READY"].into_iter().map(Column::new).collect(),
        rows: vec![plain(Subject::Object(object), &["default", "web", "2/2"])],
    });
    insta::assert_snapshot!(dash.screen());
    assert_eq!(dash.keys("\x1b"), [show(View::Environments, "alpha")], "back where one was");
    dash.keys(":po\n");
    assert_eq!(dash.state.view, View::Pods);
    dash.keys(":wid\t\n");
    assert_eq!(dash.state.view, View::Kind("widgets.example.com".to_owned()));
}

#[test]
fn leaving() {
    let mut dash = three();
    assert_eq!(dash.keys("q"), [Effect::Quit]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    dash.keys("/");
    assert_eq!(dash.send(Message::Key(control_c)), [Effect::Quit], "wherever one is");
}

#[test]
fn keys_are_those_of_the_key_map() {
    let own = BTreeMap::from([("quit".to_owned(), vec!["x".to_owned()]), ("dwon".to_owned(), vec!["n".to_owned()])]);
    let (keys, warnings) = KeyMap::new(&own);
    let mut dash = Dash::with(Settings { keys, warnings, ..Settings::default() }, 100, 14);
    assert_eq!(dash.notice(), "keys: there is no action \"dwon\": did you mean down?");
    assert!(dash.keys("q").is_empty());
    assert!(dash.screen().contains("x quit"));
    dash.keys(":warnings\n");
    assert!(dash.screen().contains("did you mean down?"));
    assert_eq!(dash.keys("\x1bx"), [Effect::Quit]);
}

#[test]
fn sorting_says_by_what() {
    let mut dash = at_pods();
    dash.keys("oo");
    assert!(dash.screen().contains("NAME▲"));
    dash.keys("O");
    assert!(dash.screen().contains("NAME▼"));
    assert_eq!(dash.state.table(&View::Pods).and_then(|t| t.row(0)).map(|r| r.subject.name()), Some("web-7d4b9"));
}

#[test]
fn the_mouse_chooses_and_scrolls() {
    let mut dash = three();
    let at = |kind, column, row| Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
    let click = |column, row| at(MouseEventKind::Down(MouseButton::Left), column, row);
    dash.send(click(3, 5));
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("beta"));
    assert_eq!(dash.send(click(3, 5)), [show(View::Pods, "beta")], "on the chosen row it goes into it");
    assert_eq!(dash.send(click(2, 1)), [show(View::Environments, "beta")], "on a tab it goes there");
    dash.send(at(MouseEventKind::ScrollDown, 3, 5));
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("gamma"));
    dash.send(click(3, 12));
    assert_eq!(dash.state.chosen_row().map(|row| row.subject.name()), Some("gamma"), "below the rows there is nothing");
}

#[test]
fn an_environment_that_cannot_be_reached_says_why() {
    let mut dash = three();
    dash.keys("2");
    dash.data(Data::Unreachable {
        view: View::Pods,
        environment: Some("alpha".to_owned()),
        why: "connection refused".to_owned(),
    });
    assert!(dash.screen().contains("alpha cannot be reached: connection refused; trying again"));
    dash.data(pods("alpha", &[("web", "1/1", "Running")]));
    assert!(!dash.screen().contains("refused"));
}

#[test]
fn trouble_is_shown_until_it_is_over() {
    let mut dash = three();
    dash.data(Data::Trouble("the server does not answer".to_owned()));
    insta::assert_snapshot!(dash.screen());
    dash.data(Data::Connected);
    assert!(!dash.screen().contains("does not answer"));
}

#[test]
fn a_tiny_terminal_does_no_harm() {
    let mut dash = at_pods();
    for (width, height) in [(1, 1), (5, 3), (20, 4), (300, 2)] {
        dash.terminal = Terminal::new(TestBackend::new(width, height)).expect("terminal");
        dash.send(Message::Resize(width, height));
        for keys in ["?", "q", "/x", "\x1b", ":p", "\x1b", "\x04", "\x1b", "w", "d", "q"] {
            dash.keys(keys);
            dash.screen();
        }
    }
}
