//! The terminal around the dashboard.

use std::{
    io, panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::{
    event::{self, DisableMouseCapture, EnableMouseCapture, Event},
    execute,
};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;

use crate::{
    draw::draw,
    model::{Data, HandOver, Outside, Request},
    state::{Settings, State},
    update::{Effect, Message, update},
};

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_secs(1);
/// How long the thread that reads keys waits before it looks whether it is still wanted.
const KEY_POLL: Duration = Duration::from_millis(50);
/// How long that thread may take to end.
const KEYS_END: Duration = Duration::from_secs(1);
/// Messages that may wait to be taken in.
const BUFFER: usize = 256;

/// The dashboard cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DashError {
    /// Standard output is no terminal, or it cannot be driven.
    #[error("the terminal cannot be used ({0}): run it in a terminal, or use `vctl list` and `vctl status` in scripts")]
    Terminal(#[from] io::Error),
}

/// The dashboard's ends of the channels to the source of its data, which is a task of its own: whatever it does, frames are drawn.
#[derive(Debug)]
pub struct Ends {
    ask: mpsc::Sender<Request>,
    data: mpsc::Receiver<Data>,
}

impl Ends {
    /// The dashboard's ends, and those of the source: it gets requests and sends news until one of the channels closes.
    pub fn new() -> (Self, mpsc::Receiver<Request>, mpsc::Sender<Data>) {
        let (ask, requests) = mpsc::channel(BUFFER);
        let (tell, data) = mpsc::channel(BUFFER);
        (Self { ask, data }, requests, tell)
    }
}

/// Runs the dashboard until the person leaves. The terminal is restored, also after a panic.
///
/// # Errors
/// [`DashError::Terminal`] when there is no usable terminal.
pub async fn run(
    server: String,
    settings: Settings,
    mouse: bool,
    ends: Ends,
    outside: &mut dyn Outside,
) -> Result<(), DashError> {
    if mouse {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // The terminal is about to be restored as well as can be.
            let _ = execute!(io::stdout(), DisableMouseCapture);
            before(info);
        }));
    }
    let mut screen = Screen::take(mouse)?;
    let outcome = live(&mut screen, server, settings, ends, outside).await;
    let restored = screen.restore();
    outcome?;
    restored?;
    Ok(())
}

/// The terminal while the dashboard has it.
struct Screen {
    terminal: DefaultTerminal,
    mouse: bool,
    keys: mpsc::Receiver<Event>,
    stop: Arc<AtomicBool>,
}

impl Screen {
    fn take(mouse: bool) -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        if mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        let (send, keys) = mpsc::channel(BUFFER);
        let stop = Arc::new(AtomicBool::new(false));
        read_keys(send, stop.clone())?;
        Ok(Self { terminal, mouse, keys, stop })
    }

    /// The terminal is as it was. The thread that reads keys is not waited for: of a terminal that is gone it may never come back.
    fn restore(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        if self.mouse {
            execute!(io::stdout(), DisableMouseCapture)?;
        }
        ratatui::try_restore()
    }

    /// The same, and after this nobody reads from the terminal.
    async fn give_back(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        // The channel ends with the thread; when that waits for room in it, it gets some.
        let ended = async { while self.keys.recv().await.is_some() {} };
        if tokio::time::timeout(KEYS_END, ended).await.is_err() {
            return Err(io::Error::other("somebody still waits for its keys"));
        }
        self.restore()
    }
}

async fn live(
    screen: &mut Screen,
    server: String,
    settings: Settings,
    mut ends: Ends,
    outside: &mut dyn Outside,
) -> io::Result<()> {
    let mut state = State::new(server, settings, Timestamp::now());
    let size = screen.terminal.size()?;
    let mut effects = update(&mut state, Message::Resize(size.width, size.height));
    let mut tick = tokio::time::interval(TICK);
    let mut end = std::pin::pin!(asked_to_end());
    loop {
        for effect in std::mem::take(&mut effects) {
            match effect {
                Effect::Quit => return Ok(()),
                Effect::Ask(request) => {
                    if let Err(e) = ends.ask.try_send(request) {
                        state.notice = Some("that was too fast: the last request was not taken".to_owned());
                        tracing::warn!(error = %e, "the source of the dashboard does not take requests");
                    }
                }
                Effect::HandOver(task) => {
                    let news = away(screen, outside, task).await?;
                    let size = screen.terminal.size()?;
                    effects.extend(update(&mut state, Message::Resize(size.width, size.height)));
                    effects.extend(update(&mut state, Message::Data(news)));
                }
            }
        }
        screen.terminal.draw(|frame| {
            draw(frame, &state);
        })?;
        let first = tokio::select! {
            Some(event) = screen.keys.recv() => from_terminal(&event),
            Some(news) = ends.data.recv() => Some(Message::Data(news)),
            _ = tick.tick() => Some(Message::Tick(Timestamp::now())),
            () = &mut end => return Ok(()),
        };
        let mut messages: Vec<Message> = first.into_iter().collect();
        // Everything that has come in the meantime is taken in before the next frame, keys first.
        while let Ok(event) = screen.keys.try_recv() {
            messages.extend(from_terminal(&event));
        }
        while let Ok(news) = ends.data.try_recv() {
            messages.push(Message::Data(news));
        }
        for message in messages {
            effects.extend(update(&mut state, message));
        }
    }
}

/// Gives the terminal away, and takes it back.
async fn away(screen: &mut Screen, outside: &mut dyn Outside, task: HandOver) -> io::Result<Data> {
    screen.give_back().await?;
    let news = outside.hand_over(task).await;
    *screen = Screen::take(screen.mouse)?;
    screen.terminal.clear()?;
    Ok(news)
}

fn from_terminal(event: &Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(*key)),
        Event::Mouse(mouse) => Some(Message::Mouse(*mouse)),
        Event::Resize(columns, rows) => Some(Message::Resize(*columns, *rows)),
        _ => None,
    }
}

/// Completes when the process shall end: then the terminal is restored first.
#[cfg(unix)]
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hang_up)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

#[cfg(not(unix))]
async fn asked_to_end() {
    std::future::pending().await
}

/// A thread of its own waits for keys, because waiting for a terminal blocks.
fn read_keys(send: mpsc::Sender<Event>, stop: Arc<AtomicBool>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("keys".to_owned());
    let begun = thread.spawn(move || {
        while !stop.load(Ordering::Relaxed) {
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
    });
    begun.map(drop)
}
