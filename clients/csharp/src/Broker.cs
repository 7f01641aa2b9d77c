using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>
    /// A client of one Ticketing server or cluster. It keeps its connections for ever: a dead server never breaks it. One
    /// broker serves any number of concurrent callers; <see cref="CloseAsync"/> ends it.
    /// </summary>
    public sealed class Broker : IAsyncDisposable
    {
        private readonly Router router;
        private readonly Releaser releaser;
        private readonly SemaphoreSlim permits;
        private readonly int pendingCountMax;
        private readonly string domain;
        private readonly CancellationTokenSource closing = new CancellationTokenSource();
        private readonly object gate = new object();
        private Task? closed;

        private Broker(BrokerOptions options)
        {
            var settings = new Settings(options);
            router = new Router(settings);
            releaser = new Releaser(router);
            pendingCountMax = settings.PendingCountMax;
            permits = new SemaphoreSlim(pendingCountMax);
            domain = options.Fingerprint?.ToLowerInvariant() ?? "single";
        }

        /// <summary>Makes a broker, which begins to connect in the background.</summary>
        /// <param name="options">Whom to connect to.</param>
        /// <returns>The broker.</returns>
        /// <exception cref="InvalidInputException">An option breaks its rule.</exception>
        public static Broker Connect(BrokerOptions options) =>
            new Broker(options ?? throw new ArgumentNullException(nameof(options)));

        /// <summary>
        /// Completes when a connection is usable. Acquires need no such call: they wait for a connection themselves.
        /// </summary>
        /// <param name="timeout">How long at most.</param>
        /// <param name="cancellationToken">Gives up.</param>
        /// <returns>When it is ready.</returns>
        /// <exception cref="UnauthorizedException">The server refused the token.</exception>
        /// <exception cref="NotConnectedException">No connection is usable after the timeout.</exception>
        /// <exception cref="ClosedException">The broker is closed.</exception>
        public async Task ReadyAsync(TimeSpan timeout, CancellationToken cancellationToken = default)
        {
            ThrowIfClosed();
            using (var enough = CancellationTokenSource.CreateLinkedTokenSource(closing.Token, cancellationToken))
            {
                enough.CancelAfter(timeout);
                await router.UntilUsable(enough.Token).ConfigureAwait(false);
            }

            cancellationToken.ThrowIfCancellationRequested();
            ThrowIfClosed();
            if (router.AnyUsable)
            {
                return;
            }

            throw router.Refused
                ? (TicketingException)new UnauthorizedException()
                : new NotConnectedException($"no server was reachable within {timeout}: {router.LastFailure}");
        }

        /// <summary>
        /// Acquires one key. Callers queue strictly first in, first out; the lock is not re-entrant.
        /// </summary>
        /// <param name="key">1–128 bytes of UTF-8 without space, LF and CR.</param>
        /// <param name="options">Wait, lease and work budget.</param>
        /// <param name="cancellationToken">Gives up; a late grant is released.</param>
        /// <returns>The ticket; dispose it to release the lock.</returns>
        /// <exception cref="TicketingException">Each class tells what is known about the lock.</exception>
        /// <exception cref="OperationCanceledException">Cancelled: not held; whatever was granted is being released.</exception>
        public Task<Ticket> AcquireAsync(string key, AcquireOptions options, CancellationToken cancellationToken = default) =>
            Acquire(new[] { Ticketing.Keys.Checked(key) }, options, cancellationToken);

        /// <summary>Acquires up to 16 keys, all or nothing, under one token.</summary>
        /// <param name="keys">The keys; order and duplicates do not matter.</param>
        /// <param name="options">Wait, lease and work budget.</param>
        /// <param name="cancellationToken">Gives up; a late grant is released.</param>
        /// <returns>The ticket; dispose it to release the locks.</returns>
        /// <exception cref="TicketingException">Each class tells what is known about the lock.</exception>
        /// <exception cref="OperationCanceledException">Cancelled: not held; whatever was granted is being released.</exception>
        public Task<Ticket> AcquireSetAsync(
            IEnumerable<string> keys, AcquireOptions options, CancellationToken cancellationToken = default) =>
            Acquire(Ticketing.Keys.CheckedSet(keys), options, cancellationToken);

        /// <summary>
        /// Refuses new calls, lets releases under way finish for at most 5 s, and completes when every socket is gone. Locks
        /// still held end with their lease. Idempotent.
        /// </summary>
        /// <returns>When it has closed.</returns>
        public Task CloseAsync()
        {
            lock (gate)
            {
                return closed ??= Close();
            }
        }

        /// <summary>The same as <see cref="CloseAsync"/>.</summary>
        /// <returns>When it has closed.</returns>
        public ValueTask DisposeAsync() => new ValueTask(CloseAsync());

        private async Task<Ticket> Acquire(byte[][] keys, AcquireOptions options, CancellationToken cancellationToken)
        {
            if (options is null)
            {
                throw new ArgumentNullException(nameof(options));
            }

            ThrowIfClosed();
            if (!permits.Wait(0))
            {
                throw new ClientCapacityException($"{pendingCountMax} acquires are pending; raise PendingCountMax or wait");
            }

            var acquire = new Acquire(router, releaser, keys, options, closing.Token, cancellationToken);
            try
            {
                Grant grant = await acquire.Run().ConfigureAwait(false);
                return new Ticket(releaser, keys, grant, domain);
            }
            finally
            {
                // A request left behind counts until it is answered or its connection ends.
                if (acquire.Outstanding is null)
                {
                    permits.Release();
                }
                else
                {
                    _ = acquire.Outstanding.ContinueWith(_ => permits.Release(), TaskScheduler.Default);
                }
            }
        }

        private async Task Close()
        {
            // Off the caller's thread: cancelling runs what waits for it.
            await Task.Run(() => closing.Cancel()).ConfigureAwait(false);
            releaser.Close();
            await releaser.Drain().ConfigureAwait(false);
            await router.Close().ConfigureAwait(false);
        }

        private void ThrowIfClosed()
        {
            if (closing.IsCancellationRequested)
            {
                throw new ClosedException("the broker is closed");
            }
        }
    }
}
