//! The task that brings data and does what is asked for. Whatever in it waits, the dashboard does not.

use std::{future::Future, pin::Pin, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::sync::{mpsc, watch};
use vctl_api::rest::{Environment, Job};
use vctl_tui::model::{Data, Request, Subject, View};

use super::{cluster, documents, edit, platform};
use crate::cli::{Client, Global, client::segment, error::CliError};

/// Changes that come within this time are shown together.
pub(super) const GATHER: Duration = Duration::from_millis(100);
/// Pause before a failed connection is tried again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// What is looked at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) view: View,
    pub(super) environment: Option<String>,
}

/// Where news go. They wait for room: the dashboard takes them in before each frame.
pub(super) type News = mpsc::Sender<Data>;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Brings news until nobody wants them any more.
pub(super) async fn feed(global: Global, mut requests: mpsc::Receiver<Request>, news: News) {
    let (show, shown) = watch::channel(Shown { view: View::Environments, environment: None });
    let mut platform: Work = Box::pin(platform::follow(global.clone(), shown.clone(), news.clone()));
    let mut cluster: Work = Box::pin(cluster::follow(global.clone(), shown, news.clone()));
    let mut page: Work = Box::pin(std::future::pending());
    let mut works: FuturesUnordered<Work> = FuturesUnordered::new();
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                None => return,
                Some(Request::Show { view, environment }) => drop(show.send_replace(Shown { view, environment })),
                Some(Request::Open { page: number, document }) => {
                    page = Box::pin(documents::bring(global.clone(), number, document, news.clone()));
                }
                Some(Request::Close) => page = Box::pin(std::future::pending()),
                Some(request) => works.push(Box::pin(act(global.clone(), request, news.clone()))),
            },
            () = &mut platform => return,
            () = &mut cluster => return,
            () = &mut page => page = Box::pin(std::future::pending()),
            Some(()) = works.next(), if !works.is_empty() => {}
        }
    }
}

/// Does something, and says how it went.
async fn act(global: Global, request: Request, news: News) {
    let said = match perform(&global, request).await {
        Ok(said) => said,
        Err(e) => Data::Notice(e.to_string()),
    };
    // The dashboard may be about to end.
    let _ = news.send(said).await;
}

async fn perform(global: &Global, request: Request) -> Result<Data, CliError> {
    let client = || Client::open(global);
    let said = match request {
        Request::Delete(Subject::Environment(name)) => {
            let _: Job = client()?.delete(&format!("environments/{}", segment(&name))).await?;
            format!("environment {name} is being deleted")
        }
        Request::Delete(Subject::Object(object)) => {
            let cluster = cluster::connect(global, &object.environment).await?;
            cluster.delete(&object).await?;
            format!("{} {} is deleted", object.resource, object.name)
        }
        Request::Sleep(name) => {
            let _: Environment = lifecycle(&client()?, &name, "sleep").await?;
            format!("environment {name} goes to sleep")
        }
        Request::Wake(name) => {
            let _: Environment = lifecycle(&client()?, &name, "wake").await?;
            format!("environment {name} wakes up")
        }
        Request::Cancel(id) => {
            let _: Job = client()?.post(&format!("jobs/{}/cancel", segment(&id)), &serde_json::json!({})).await?;
            format!("job {id} is told to stop")
        }
        Request::Resume(id) => {
            let job: Job = client()?.post(&format!("jobs/{}/resume", segment(&id)), &serde_json::json!({})).await?;
            format!("job {} does again what {id} was at", job.id)
        }
        Request::Apply(draft) => return edit::apply(global, draft).await,
        Request::Delete(_) | Request::Show { .. } | Request::Open { .. } | Request::Close => {
            return Err(CliError::Usage("this cannot be done".to_owned()));
        }
    };
    Ok(Data::Notice(said))
}

/// Puts an environment to sleep, or wakes it; how it goes is seen in its row.
async fn lifecycle(client: &Client, name: &str, what: &str) -> Result<Environment, CliError> {
    let path = format!("environments/{}", segment(name));
    let _: Job = client.post(&format!("{path}/{what}"), &serde_json::json!({})).await?;
    client.get(&path).await
}
