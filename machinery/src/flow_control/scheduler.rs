//! Seats for requests, and whose turn it is when there are not enough.
//!
//! A seat is given at once while the process, the tenant and the priority level have one free. Else the request waits in the queue of
//! its flow. A seat that becomes free goes to the next tenant in turn that can use one; within the tenant to exempt requests first, then
//! to the level that has had least for its shares; within the level to the next flow in turn; within the flow to who waits longest. So
//! no tenant, level or flow waits for more than one request of each other one, however many those have.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

use super::Level;

/// Seats of a [`Scheduler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seats of all tenants together.
    pub total: usize,
    /// Seats of one tenant.
    pub tenant: usize,
    /// Requests of one tenant that may wait.
    pub waiting: usize,
}

/// What came of asking for a seat.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    /// There was one; [`Scheduler::leave`] gives it back.
    Seated,
    /// The request waits: its token comes out of [`Scheduler::leave`] when it has a seat.
    Waits(Turn),
    /// It is not served.
    Refused(Refused),
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its level has no queues, and no seat.
    ConcurrencyLimit,
    /// Too many of its flow or tenant wait already.
    QueueFull,
}

/// The place of a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    flow: u64,
    number: u64,
}

/// See the module. `T` names tenants, `W` is what wakes a waiting request.
#[derive(Debug)]
pub struct Scheduler<T, W> {
    limits: Limits,
    used: usize,
    waiting: usize,
    numbers: u64,
    tenants: HashMap<T, Tenant<W>>,
    /// Tenants with waiting requests; the first one is next.
    turns: VecDeque<T>,
}

#[derive(Debug)]
struct Tenant<W> {
    used: usize,
    waiting: usize,
    /// What the level that had the last turn had had before it.
    pace: u64,
    levels: Vec<LevelQueue<W>>,
}

#[derive(Debug)]
struct LevelQueue<W> {
    level: Arc<Level>,
    used: usize,
    waiting: usize,
    /// What it has had for its shares, in turns that cost the more the fewer shares there are.
    had: u64,
    /// Flows with waiting requests; the first one is next.
    flows: VecDeque<(u64, VecDeque<(u64, W)>)>,
}

/// What one turn costs a level with one share.
const TURN: u64 = 1 << 20;

impl<W> Default for Tenant<W> {
    fn default() -> Self {
        Self { used: 0, waiting: 0, pace: 0, levels: Vec::new() }
    }
}

impl<W> Tenant<W> {
    fn level(&mut self, level: &Arc<Level>) -> &mut LevelQueue<W> {
        let at = match self.levels.iter().position(|l| l.level.name == level.name) {
            Some(at) => {
                // The newest settings count.
                if !Arc::ptr_eq(&self.levels[at].level, level) {
                    self.levels[at].level = level.clone();
                }
                at
            }
            None => {
                let (level, had) = (level.clone(), self.pace);
                self.levels.retain(|l| l.used > 0 || l.waiting > 0);
                self.levels.push(LevelQueue { level, used: 0, waiting: 0, had, flows: VecDeque::new() });
                self.levels.len() - 1
            }
        };
        &mut self.levels[at]
    }

    /// The level whose turn it is, of those that have a request and may have a seat.
    fn next(&mut self, seats: usize) -> Option<&mut LevelQueue<W>> {
        let can = |l: &&mut LevelQueue<W>| l.waiting > 0 && l.used < l.level.seats(seats);
        self.levels.iter_mut().filter(can).min_by_key(|l| (!l.level.exempt, l.had))
    }
}

impl<T: Clone + Eq + Hash, W> Scheduler<T, W> {
    /// With nobody in it.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: 0, waiting: 0, numbers: 0, tenants: HashMap::new(), turns: VecDeque::new() }
    }

    /// Requests with a seat.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Asks for a seat; `token` is only made when the request has to wait.
    pub fn enter(&mut self, tenant: &T, level: &Arc<Level>, flow: u64, token: impl FnOnce() -> W) -> Entered {
        let limits = self.limits;
        let room = self.used < limits.total;
        if !self.tenants.contains_key(tenant) {
            self.tenants.insert(tenant.clone(), Tenant::default());
        }
        let Some(own) = self.tenants.get_mut(tenant) else { return Entered::Refused(Refused::QueueFull) };
        let room = room && own.used < limits.tenant;
        let (tenant_waiting, used, pace) = (own.waiting, own.used, own.pace);
        let queue = own.level(level);
        if room && queue.used < level.seats(limits.tenant) {
            queue.used += 1;
            own.used += 1;
            self.used += 1;
            return Entered::Seated;
        }
        // Exempt requests are of administrators, who are not refused for what others do: they wait within the tenant's bound only.
        let of_flow = queue.flows.iter().position(|(f, _)| *f == flow);
        let length = of_flow.and_then(|at| queue.flows.get(at)).map_or(0, |(_, waiting)| waiting.len());
        let refused = match level.queue_length {
            _ if tenant_waiting >= limits.waiting => Some(Refused::QueueFull),
            _ if level.exempt => None,
            None => Some(Refused::ConcurrencyLimit),
            Some(most) if length >= most => Some(Refused::QueueFull),
            Some(_) => None,
        };
        if let Some(refused) = refused {
            if used == 0 && tenant_waiting == 0 {
                self.tenants.remove(tenant);
            }
            return Entered::Refused(refused);
        }
        self.numbers += 1;
        let turn = Turn { flow, number: self.numbers };
        match of_flow.and_then(|at| queue.flows.get_mut(at)) {
            Some((_, waiting)) => waiting.push_back((turn.number, token())),
            None => queue.flows.push_back((flow, VecDeque::from([(turn.number, token())]))),
        }
        queue.waiting += 1;
        if queue.waiting == 1 {
            // Turns that it did not want are not saved up.
            queue.had = queue.had.max(pace);
        }
        own.waiting += 1;
        self.waiting += 1;
        if own.waiting == 1 {
            self.turns.push_back(tenant.clone());
        }
        Entered::Waits(turn)
    }

    /// Gives a seat back. The requests whose tokens come out have one now.
    pub fn leave(&mut self, tenant: &T, level: &Arc<Level>) -> Vec<W> {
        if let Some(own) = self.tenants.get_mut(tenant) {
            let queue = own.level(level);
            queue.used = queue.used.saturating_sub(1);
            own.used = own.used.saturating_sub(1);
            self.used = self.used.saturating_sub(1);
            if own.used == 0 && own.waiting == 0 {
                self.tenants.remove(tenant);
            }
        }
        if self.waiting == 0 { Vec::new() } else { self.dispatch() }
    }

    /// Takes a waiting request out of its queue; false when it has a seat already, which is to be given back.
    pub fn give_up(&mut self, tenant: &T, level: &Arc<Level>, turn: Turn) -> bool {
        let Some(own) = self.tenants.get_mut(tenant) else { return false };
        let queue = own.level(level);
        let Some(at) = queue.flows.iter().position(|(f, _)| *f == turn.flow) else { return false };
        let waiting = &mut queue.flows[at].1;
        let Some(place) = waiting.iter().position(|(number, _)| *number == turn.number) else { return false };
        waiting.remove(place);
        if waiting.is_empty() {
            queue.flows.remove(at);
        }
        queue.waiting -= 1;
        own.waiting -= 1;
        self.waiting -= 1;
        self.tidy(tenant);
        true
    }

    /// Takes a tenant that waits for nothing out of the turns, and one that has nothing out of the map.
    fn tidy(&mut self, tenant: &T) {
        let Some(own) = self.tenants.get(tenant) else { return };
        if own.waiting == 0 {
            self.turns.retain(|t| t != tenant);
            if own.used == 0 {
                self.tenants.remove(tenant);
            }
        }
    }

    /// Hands out the seats that are free.
    fn dispatch(&mut self) -> Vec<W> {
        let limits = self.limits;
        let mut seated = Vec::new();
        // Tenants that were asked, one after the other, and can use no seat.
        let mut without = 0;
        while self.used < limits.total && without < self.turns.len() {
            let Some(tenant) = self.turns.pop_front() else { break };
            let Some(own) = self.tenants.get_mut(&tenant) else { continue };
            let next = if own.used < limits.tenant { own.next(limits.tenant) } else { None };
            let Some(queue) = next else {
                without += 1;
                self.turns.push_back(tenant);
                continue;
            };
            let Some((flow, mut waiting)) = queue.flows.pop_front() else { continue };
            if let Some((_, token)) = waiting.pop_front() {
                seated.push(token);
                queue.used += 1;
                queue.waiting -= 1;
                let had = queue.had;
                queue.had += TURN / u64::from(queue.level.shares.max(1));
                if !waiting.is_empty() {
                    queue.flows.push_back((flow, waiting));
                }
                own.pace = own.pace.max(had);
                own.used += 1;
                own.waiting -= 1;
                self.used += 1;
                self.waiting -= 1;
            }
            if own.waiting > 0 {
                self.turns.push_back(tenant);
            }
            without = 0;
        }
        seated
    }
}
