//! A TCP proxy that can silently lose all data, in both directions.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Connections that existed or were opened while data was lost stay open and dead.
pub(super) struct Proxy {
    port: u16,
    /// Whether all data is lost.
    loses: Arc<watch::Sender<bool>>,
}

impl Proxy {
    pub(super) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let loses = Arc::new(watch::Sender::new(false));
        let losing = Arc::clone(&loses);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, losing.subscribe()));
            }
        });
        Self { port, loses }
    }

    /// The URL of a database through this proxy.
    pub(super) fn through(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("@127.0.0.1:").expect("a URL of a private server");
        let (_, database) = rest.split_once('/').expect("a database");
        format!("{scheme}@127.0.0.1:{}/{database}", self.port)
    }

    pub(super) fn lose(&self) {
        self.loses.send_replace(true);
    }

    pub(super) fn serve(&self) {
        self.loses.send_replace(false);
    }
}

async fn forward(mut client: TcpStream, server: u16, mut loses: watch::Receiver<bool>) {
    let copied = async {
        let mut server = TcpStream::connect(("127.0.0.1", server)).await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        biased;
        _ = loses.wait_for(|loses| *loses) => {}
        _ = copied => return,
    }
    std::future::pending::<()>().await;
    drop(client);
}
