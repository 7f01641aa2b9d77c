using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>
    /// A held lock on one key or a set of keys. Thread-safe. Give <see cref="Token"/> to the protected resource, which
    /// must refuse any token below the highest it has seen, and stop working when <see cref="Remaining"/> is zero. A
    /// ticket that is forgotten is released when it is collected.
    /// </summary>
    public sealed class Ticket : IAsyncDisposable
    {
        private readonly Releaser releaser;
        private readonly byte[][] keys;
        private readonly TimeSpan validBefore;
        private readonly object gate = new object();
        private Task<ReleaseOutcome>? release;

        internal Ticket(Releaser releaser, byte[][] keys, Grant grant, string domain)
        {
            this.releaser = releaser;
            this.keys = keys;
            validBefore = grant.ValidBefore;
            Token = grant.Token;
            Domain = domain;
            Keys = keys.Select(key => Encoding.UTF8.GetString(key)).ToArray();
        }

        /// <summary>Releases a forgotten ticket in the background.</summary>
        ~Ticket()
        {
            releaser.GiveBackInBackground(keys, Token);
        }

        /// <summary>The keys, ascending bytewise.</summary>
        public IReadOnlyList<string> Keys { get; }

        /// <summary>Fencing token: strictly larger than every token granted before it in the same domain.</summary>
        public ulong Token { get; }

        /// <summary>
        /// The token's fencing domain: <c>"single"</c>, or the cluster's fingerprint. Tokens of two domains must never be
        /// compared, nor those of two single servers.
        /// </summary>
        public string Domain { get; }

        /// <summary>How long the lock may still be relied on: send time + lease - now, zero when it has passed.</summary>
        public TimeSpan Remaining
        {
            get
            {
                TimeSpan left = validBefore - Clock.Now;
                return left > TimeSpan.Zero ? left : TimeSpan.Zero;
            }
        }

        /// <summary>
        /// Releases the lock. Completes only with the server's definite answer, after at most 5 s; a second call gives the
        /// first one's result.
        /// </summary>
        /// <returns>The outcome.</returns>
        /// <exception cref="ReleaseUnconfirmedException">No definite answer came. The lease ends the lock.</exception>
        /// <exception cref="ClientCapacityException">1,024 releases are under way. The lease ends the lock.</exception>
        /// <exception cref="ClosedException">The broker is closed. The lease ends the lock.</exception>
        /// <exception cref="RejectedException">The server refused the request.</exception>
        public Task<ReleaseOutcome> ReleaseAsync()
        {
            lock (gate)
            {
                if (release is null)
                {
                    GC.SuppressFinalize(this);
                    release = releaser.Release(keys, Token);
                }

                return release;
            }
        }

        /// <summary>Releases the lock in the background, by the same rules and without a report.</summary>
        public void Abandon() => Releaser.Forget(ReleaseAsync());

        /// <summary>
        /// Releases the lock and waits, at most 5 s. A release that stays unconfirmed is not reported: the lease ends the
        /// lock. Call <see cref="ReleaseAsync"/> to know.
        /// </summary>
        /// <returns>When it is done.</returns>
        public async ValueTask DisposeAsync()
        {
            try
            {
                await ReleaseAsync().ConfigureAwait(false);
            }
            catch (TicketingException)
            {
                // The lease is the safety net.
            }
        }
    }
}
