//! The lines of a page that are on the screen.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Block, Borders},
};

use crate::{
    model::{Document, Tone},
    page::Page,
    state::State,
    theme::Theme,
};

pub(super) fn page(frame: &mut Frame<'_>, area: Rect, state: &State, page: &Page) -> usize {
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(heading(page)).title_bottom(place(page));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    if page.is_empty() {
        let text = match &page.ended {
            Some(Some(why)) => why.clone(),
            Some(None) => "nothing".to_owned(),
            None if page.document.is_some() => "waiting for the first answer …".to_owned(),
            None => String::new(),
        };
        frame.render_widget(Line::raw(text), inner);
        return 1;
    }
    let theme = state.theme();
    let (mut y, mut work) = (0, 0);
    for at in page.top..page.len() {
        let Some(line) = page.line(at) else { break };
        work += 1;
        // Only what can be seen of a line is looked at, however long it is.
        let seen: String = if page.wrap {
            line.chars().take(width * (height - y)).collect()
        } else {
            line.chars().skip(page.left).take(width).collect()
        };
        let letters: Vec<(char, Style)> = styled(&seen, page, theme);
        let pieces: Vec<&[(char, Style)]> =
            if letters.is_empty() { vec![&letters[..]] } else { letters.chunks(width.max(1)).collect() };
        for piece in pieces {
            if y >= height {
                return work;
            }
            let spans: Vec<Span<'_>> = runs(piece);
            frame.render_widget(Line::from(spans), Rect { y: inner.y + y as u16, height: 1, ..inner });
            y += 1;
        }
        if y >= height {
            break;
        }
    }
    work
}

/// Each letter with its look: lines of diffs have colours, and what a search finds stands out.
fn styled(line: &str, page: &Page, theme: Theme) -> Vec<(char, Style)> {
    let base = match (page.draft.is_some(), line.as_bytes().first()) {
        (true, Some(b'+')) => theme.tone(Tone::Good),
        (true, Some(b'-')) => theme.tone(Tone::Bad),
        _ => Style::new(),
    };
    let found: Vec<_> = page.search.iter().flat_map(|pattern| pattern.find_iter(line)).map(|m| m.range()).collect();
    let style = |at: usize| if found.iter().any(|range| range.contains(&at)) { theme.found() } else { base };
    line.char_indices().map(|(at, c)| (c, style(at))).collect()
}

/// Letters of the same look together.
fn runs(letters: &[(char, Style)]) -> Vec<Span<'static>> {
    letters
        .chunk_by(|a, b| a.1 == b.1)
        .map(|run| Span::styled(run.iter().map(|(c, _)| *c).collect::<String>(), run[0].1))
        .collect()
}

fn heading(page: &Page) -> String {
    let search = if page.typed.is_empty() { String::new() } else { format!(" /{}", page.typed) };
    format!(" {}{search} ", page.title)
}

/// Where one is, and whether more comes.
fn place(page: &Page) -> String {
    let mut text = match page.len() {
        0 => String::new(),
        all => format!(" line {} of {all}", page.top + 1),
    };
    if page.dropped > 0 {
        text.push_str(&format!(", {} before them are gone", page.dropped));
    }
    let live = matches!(page.document, Some(Document::Logs { .. } | Document::JobLog(_)));
    match &page.ended {
        Some(Some(why)) if !page.is_empty() => text.push_str(&format!(" · {why}")),
        Some(_) if live => text.push_str(" · ended"),
        None if live && page.follow => text.push_str(" · following"),
        _ => {}
    }
    if page.wrap {
        text.push_str(" · wrapped");
    }
    if text.is_empty() { text } else { format!("{text} ") }
}
