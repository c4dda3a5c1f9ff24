//! The terminal around the dashboard.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::event::{self, Event};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;

use crate::{
    draw::draw,
    model::{Data, Request, Source},
    state::State,
    update::{Effect, Message, update},
};

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_secs(1);
/// How long the thread that reads keys waits before it looks whether it is still wanted.
const KEY_POLL: Duration = Duration::from_millis(100);
/// Messages that may wait to be taken in.
const BUFFER: usize = 256;

/// The dashboard cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DashError {
    /// Standard output is no terminal, or it cannot be driven.
    #[error("the terminal cannot be used ({0}): run it in a terminal, or use `vctl list` and `vctl status` in scripts")]
    Terminal(#[from] io::Error),
}

/// Runs the dashboard until the person leaves. The terminal is restored, also after a panic.
///
/// # Errors
/// [`DashError::Terminal`] when there is no usable terminal.
pub async fn run(server: String, source: Box<dyn Source>) -> Result<(), DashError> {
    let mut terminal = ratatui::try_init()?;
    let (ask, requests) = mpsc::channel(BUFFER);
    let (tell, data) = mpsc::channel(BUFFER);
    let (keys, stop) = read_keys()?;
    let outcome = tokio::select! {
        outcome = screen(&mut terminal, server, keys, data, ask) => outcome,
        () = async {
            source.feed(requests, tell).await;
            // Without a source what is known stays on the screen until the person leaves.
            std::future::pending::<()>().await;
        } => Ok(()),
    };
    stop.store(true, Ordering::Relaxed);
    let restored = ratatui::try_restore();
    outcome?;
    restored?;
    Ok(())
}

async fn screen(
    terminal: &mut DefaultTerminal,
    server: String,
    mut keys: mpsc::Receiver<Event>,
    mut data: mpsc::Receiver<Data>,
    ask: mpsc::Sender<Request>,
) -> io::Result<()> {
    let mut state = State::new(server, Timestamp::now());
    update(&mut state, Message::Resize(terminal.size()?.height));
    let mut tick = tokio::time::interval(TICK);
    loop {
        terminal.draw(|frame| draw(frame, &state))?;
        let first = tokio::select! {
            Some(event) = keys.recv() => from_terminal(&event),
            Some(news) = data.recv() => Some(Message::Data(news)),
            _ = tick.tick() => Some(Message::Tick(Timestamp::now())),
        };
        // Everything that has come in the meantime is taken in before the next frame.
        let mut messages: Vec<Message> = first.into_iter().collect();
        while let Ok(event) = keys.try_recv() {
            messages.extend(from_terminal(&event));
        }
        while let Ok(news) = data.try_recv() {
            messages.push(Message::Data(news));
        }
        for message in messages {
            for effect in update(&mut state, message) {
                match effect {
                    Effect::Quit => return Ok(()),
                    Effect::Ask(request) => {
                        if let Err(e) = ask.try_send(request) {
                            tracing::warn!(error = %e, "the source of the dashboard does not take requests");
                        }
                    }
                }
            }
        }
    }
}

fn from_terminal(event: &Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(*key)),
        Event::Resize(_, rows) => Some(Message::Resize(*rows)),
        _ => None,
    }
}

/// A thread of its own waits for keys, because waiting for a terminal blocks.
fn read_keys() -> io::Result<(mpsc::Receiver<Event>, Arc<AtomicBool>)> {
    let (send, receive) = mpsc::channel(BUFFER);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            match event::poll(KEY_POLL) {
                Ok(false) => {}
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if send.blocking_send(event).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    })?;
    Ok((receive, stop))
}
