using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>Which connection takes a request: the leader when it is known, otherwise each in turn.</summary>
    internal sealed class Router : IConnectionListener
    {
        /// <summary>Connections to the one address of single mode, so that one broken socket does not interrupt service.</summary>
        private const int SingleConnectionCount = 2;

        private readonly Connection[] connections;
        private volatile Connection? leader;
        private volatile bool refused;
        private volatile string lastFailure = "no answer yet; check the address, and that both sides use TLS or neither";
        private volatile TaskCompletionSource<bool> change = NewChange();
        private int turn = -1;

        internal Router(Settings settings)
        {
            Endpoint[] endpoints = settings.Endpoints;
            byte[]? fingerprint = settings.Fingerprint;
            connections = fingerprint is null
                ? Enumerable.Range(0, SingleConnectionCount)
                    .Select(_ => new Connection(endpoints[0], Expected.Single(), 0, settings, this))
                    .ToArray()
                : endpoints
                    .Select((endpoint, slot) => new Connection(
                        endpoint, Expected.Member((byte)slot, fingerprint), endpoints.Length, settings, this))
                    .ToArray();
            foreach (Connection connection in connections)
            {
                connection.Start();
            }
        }

        internal bool AnyUsable => connections.Any(connection => connection.IsUsable);

        /// <summary>Whether the last verdict that any connection got refused the token.</summary>
        internal bool Refused => refused;

        /// <summary>Why the latest session of any connection ended.</summary>
        internal string LastFailure => lastFailure;

        /// <summary>A usable connection, another than the avoided ones if there is one.</summary>
        internal Connection? Choose(ICollection<Connection> avoided)
        {
            Connection? known = leader;
            if (known != null && known.IsUsable && !avoided.Contains(known))
            {
                return known;
            }

            uint start = (uint)Interlocked.Increment(ref turn);
            Connection? fallback = null;
            for (uint step = 0; step < connections.Length; step++)
            {
                Connection connection = connections[(start + step) % connections.Length];
                if (connection.IsUsable && !avoided.Contains(connection))
                {
                    return connection;
                }

                fallback ??= connection.IsUsable ? connection : null;
            }

            return fallback;
        }

        /// <summary>The connection's server has said that it does not lead.</summary>
        internal void LeadsNoMore(Connection connection)
        {
            if (leader == connection)
            {
                leader = null;
            }
        }

        /// <summary>Completes when a connection is usable, or early.</summary>
        internal async Task UntilUsable(CancellationToken early)
        {
            for (;;)
            {
                Task next = change.Task;
                if (AnyUsable || early.IsCancellationRequested)
                {
                    return;
                }

                using var done = CancellationTokenSource.CreateLinkedTokenSource(early);
                await Task.WhenAny(next, Clock.Pause(TimeSpan.FromDays(1), done.Token)).ConfigureAwait(false);
                done.Cancel();
            }
        }

        internal Task Close() => Task.WhenAll(connections.Select(connection => connection.Close()));

        public void Changed(Connection connection)
        {
            if (!connection.IsUsable)
            {
                LeadsNoMore(connection);
            }

            Interlocked.Exchange(ref change, NewChange()).TrySetResult(true);
        }

        public void Failed(string reason) => lastFailure = reason;

        public void Verdict(bool refusal) => refused = refusal;

        public void Leader(byte slot) => leader = slot == Reply.NoSlot ? null : connections[slot];

        private static TaskCompletionSource<bool> NewChange() =>
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
    }
}
