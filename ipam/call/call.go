package call

// Request is what is asked for: one of the types of this package that end in Request, Release, Creation or Removal, or what
// the shell has seen.
type Request interface{ request() }

func (*PoolRequest) request()      {}
func (*PoolRelease) request()      {}
func (*AddressRequest) request()   {}
func (*AddressRelease) request()   {}
func (*Withdrawal) request()       {}
func (*Stranger) request()         {}
func (*Greeting) request()         {}
func (*Inventory) request()        {}
func (*ClientRequest) request()    {}
func (*FreeRequest) request()      {}
func (*HostAddresses) request()    {}
func (*Blindness) request()        {}
func (*PoolCreation) request()     {}
func (*PoolRemoval) request()      {}
func (*ReserveRequest) request()   {}
func (*UnreserveRequest) request() {}
func (*CollectRequest) request()   {}
func (*DrainRequest) request()     {}
func (*LeaveRequest) request()     {}
func (*EvictRequest) request()     {}
func (*ForgetRequest) request()    {}
func (*TrustRequest) request()     {}
func (*IdentityRequest) request()  {}
func (*LockRequest) request()      {}
func (*UnlockRequest) request()    {}
func (*RenewalRequest) request()   {}
func (*RecoverRequest) request()   {}
