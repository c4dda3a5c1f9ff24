//! The lines above and below: title with curves, tabs, keys.

use std::ops::Range;

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use crate::{
    keys::Action,
    model::{Document, Subject, Tone, View},
    state::{Mode, SAMPLES, State},
    update::candidates,
};

/// Server, and what is wrong with it; at the right what the chosen environment uses, where there is room.
pub(super) fn title(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let theme = state.theme();
    let mut spans = vec![Span::styled("vctl ", theme.accent()), Span::raw(state.server.as_str())];
    if state.settings.read_only {
        spans.push(Span::styled("  read-only", theme.dim()));
    }
    if let Some(trouble) = &state.trouble {
        spans.push(Span::styled(format!("  ✗ {trouble}"), theme.tone(Tone::Bad)));
    } else if state.tables.get(&View::Environments).is_none_or(|table| table.len().is_none()) {
        spans.push(Span::styled("  connecting …", theme.tone(Tone::Busy)));
    }
    let line = Line::from(spans);
    let used = line.width();
    frame.render_widget(line, area);
    let curves = curves(state);
    let width = curves.chars().count();
    if !curves.is_empty() && used + width + 2 <= usize::from(area.width) {
        let right = Rect { x: area.x + area.width - width as u16, width: width as u16, ..area };
        frame.render_widget(Line::styled(curves, theme.dim()), right);
    }
}

fn curves(state: &State) -> String {
    let Some((cpu, memory)) = state.usage.back() else { return String::new() };
    let curve = |values: Vec<u64>| {
        let most = values.iter().copied().max().unwrap_or_default().max(1);
        let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let text: String = values.iter().map(|v| bars[(*v * 7).div_ceil(most).min(7) as usize]).collect();
        format!("{text:>SAMPLES$}")
    };
    let cpus = curve(state.usage.iter().map(|(cpu, _)| *cpu).collect());
    let memories = curve(state.usage.iter().map(|(_, memory)| *memory).collect());
    format!("cpu {cpus} {cpu}m  memory {memories} {}Mi", memory >> 20)
}

/// How the tabs are written: with all counts, with that of the current one, or numbers only for the others; the first that fits.
fn tab_texts(state: &State) -> Vec<(View, String)> {
    let mut views: Vec<View> = View::NUMBERED.to_vec();
    if !views.contains(&state.view) {
        views.push(state.view.clone());
    }
    let write = |counts: bool, names: bool| {
        let text = |(i, view): (usize, &View)| {
            let current = *view == state.view;
            let count = state.tables.get(view).and_then(|table| table.len()).filter(|_| counts || current);
            let count = count.map_or_else(String::new, |n| format!(" ({n})"));
            let number = if i < View::NUMBERED.len() { format!("{} ", i + 1) } else { String::new() };
            let name = if names || current { view.name() } else { "" };
            (view.clone(), format!(" {}{count} ", format!("{number}{name}").trim_end()))
        };
        views.iter().enumerate().map(text).collect::<Vec<_>>()
    };
    let fits = |tabs: &Vec<(View, String)>| {
        tabs.iter().map(|(_, text)| text.chars().count() + 1).sum::<usize>() <= usize::from(state.columns) + 1
    };
    [(true, true), (false, true)]
        .into_iter()
        .map(|(counts, names)| write(counts, names))
        .find(fits)
        .unwrap_or_else(|| write(false, false))
}

pub(super) fn tabs(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let mut spans = Vec::new();
    for (view, text) in tab_texts(state) {
        let style = if view == state.view { state.theme().cursor() } else { state.theme().tone(Tone::Plain) };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    frame.render_widget(Line::from(spans), area);
}

/// The view whose tab is in a column.
pub(crate) fn tab_at(state: &State, column: u16) -> Option<View> {
    let mut start = 0;
    tab_texts(state).into_iter().find_map(|(view, text)| {
        let range: Range<usize> = start..start + text.chars().count();
        start = range.end + 1;
        range.contains(&usize::from(column)).then_some(view)
    })
}

/// What is typed, what there is to say, or which keys help here.
pub(super) fn bar(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let theme = state.theme();
    let line = match &state.mode {
        Mode::Filter => {
            let typed = state.tables.get(&state.view).map(|table| table.typed.as_str()).unwrap_or_default();
            Line::from(format!(
                "/{typed}▏  regular expression, !without, -l labels, -f letters; enter keeps it, esc removes it"
            ))
        }
        Mode::Search => {
            let page = state.page.as_ref();
            let found = page.and_then(|page| page.found()).map_or_else(String::new, |n| format!("{n} lines  "));
            let typed = page.map(|page| page.typed.as_str()).unwrap_or_default();
            Line::from(format!("/{typed}▏  {found}enter keeps it, esc removes it"))
        }
        Mode::Palette(text) => {
            let found = candidates(state, text);
            let room = usize::from(area.width).saturating_sub(text.chars().count() + 5);
            let mut shown = String::new();
            for name in found {
                if shown.len() + name.len() > room {
                    shown.push('…');
                    break;
                }
                shown.push_str(name);
                shown.push_str("  ");
            }
            Line::from(format!(":{text}▏  {shown}"))
        }
        Mode::Confirm { subject, typed } => {
            let (verb, asks) = match subject {
                Subject::Job(_) => ("cancel", "type its id: "),
                _ => ("delete", "type its name: "),
            };
            let what = match subject {
                Subject::Job(id) => format!("job {id}"),
                Subject::Environment(name) => format!("environment {name} and everything in it"),
                Subject::Object(object) => format!("{} {}", object.resource, object.name),
                other => other.name().to_owned(),
            };
            Line::styled(format!("{verb} {what}? {asks}{typed}▏  esc keeps it"), theme.tone(Tone::Bad))
        }
        Mode::Normal => match &state.notice {
            Some(notice) => Line::styled(notice.lines().next().unwrap_or_default(), theme.tone(Tone::Busy)),
            None => Line::styled(keys(state, usize::from(area.width)), theme.dim()),
        },
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// Keys that do something here, most useful first, as many as fit.
fn keys(state: &State, width: usize) -> String {
    let here: &[(Action, &str)] = match &state.page {
        Some(page) if page.draft.is_some() => &[
            (Action::Open, "apply"),
            (Action::Edit, "edit again"),
            (Action::Back, "discard"),
            (Action::Filter, "search"),
        ],
        Some(page) => match &page.document {
            Some(Document::Logs { .. }) => &[
                (Action::Back, "close"),
                (Action::Filter, "search"),
                (Action::Follow, "follow"),
                (Action::Wide, "wrap"),
                (Action::PreviousLogs, "previous"),
                (Action::Container, "container"),
            ],
            _ => &[
                (Action::Back, "close"),
                (Action::Filter, "search"),
                (Action::NextMatch, "next"),
                (Action::Wide, "wrap"),
            ],
        },
        None => match &state.view {
            View::Environments => &[
                (Action::Open, "pods"),
                (Action::Describe, "describe"),
                (Action::Sleep, "sleep"),
                (Action::Wake, "wake"),
                (Action::Delete, "delete"),
            ],
            View::Pods => &[
                (Action::Logs, "logs"),
                (Action::PreviousLogs, "previous"),
                (Action::Shell, "shell"),
                (Action::Describe, "describe"),
                (Action::Yaml, "YAML"),
                (Action::Edit, "edit"),
                (Action::Delete, "delete"),
            ],
            View::Kind(_) => &[
                (Action::Describe, "describe"),
                (Action::Yaml, "YAML"),
                (Action::Edit, "edit"),
                (Action::Delete, "delete"),
            ],
            View::Jobs => &[
                (Action::Open, "log"),
                (Action::Describe, "describe"),
                (Action::Cancel, "cancel"),
                (Action::Resume, "resume"),
            ],
            View::Workers | View::Events | View::Audit => &[(Action::Describe, "describe"), (Action::Yaml, "YAML")],
        },
    };
    let last: &[(Action, &str)] = match state.page {
        Some(_) => &[(Action::Help, "help")],
        None => {
            &[(Action::Help, "help"), (Action::Filter, "filter"), (Action::Palette, "command"), (Action::Quit, "quit")]
        }
    };
    let own = here.iter().filter(|(action, _)| !state.settings.read_only || !action.changes());
    let write = |(action, what): &(Action, &str)| format!("{} {what}", state.settings.keys.key(*action));
    let tail: Vec<String> = last.iter().map(write).collect();
    let tail = tail.join("  ");
    let mut text = String::new();
    for one in own.map(write) {
        if text.chars().count() + one.chars().count() + tail.chars().count() + 4 > width {
            break;
        }
        text.push_str(&one);
        text.push_str("  ");
    }
    text + &tail
}
