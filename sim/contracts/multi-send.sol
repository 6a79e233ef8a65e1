// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Pays many in one call, each line for itself: one that fails moves nothing and the others go on. Of every line the receipt has
/// exactly one of Paid and Failed, by the line's own name. Success is what arrived, never what a token answers: USDT answers
/// nothing on Ethereum and false on TRON. It keeps nothing: coin that no line took goes back to the caller.
contract MultiSend {
    /// What one line may use: a receiver that burns all gas takes no line after it along.
    uint256 private constant TOKEN_GAS = 200_000;
    uint256 private constant COIN_GAS = 50_000;
    /// What a line needs beside that: calling, and its event.
    uint256 private constant AROUND_GAS = 30_000;
    uint256 private locked;

    event Paid(bytes32 indexed ref, address indexed to, uint256 amount);
    event Failed(bytes32 indexed ref, address indexed to, uint256 amount);

    /// A receiver of coin that calls back could be paid out of the lines that come after it.
    modifier once() {
        require(locked == 0, "called from inside");
        locked = 1;
        _;
        locked = 0;
    }

    /// A frame gets 63 of 64 parts at most. Without this a call with little gas would fail its last lines and still succeed, and
    /// an estimate, which looks for the least that succeeds, would find just that.
    function requireGas(uint256 lineGas) private view {
        require(gasleft() >= (lineGas * 64) / 63 + AROUND_GAS, "too little gas");
    }

    /// The caller must have approved this contract.
    function payTokens(
        address token,
        bytes32[] calldata refs,
        address[] calldata to,
        uint256[] calldata amounts
    ) external once returns (uint256 paid) {
        require(refs.length == to.length && to.length == amounts.length, "lengths differ");
        for (uint256 i = 0; i < to.length; i++) {
            requireGas(TOKEN_GAS);
            try this.payToken{gas: TOKEN_GAS}(token, msg.sender, to[i], amounts[i]) {
                paid++;
                emit Paid(refs[i], to[i], amounts[i]);
            } catch {
                emit Failed(refs[i], to[i], amounts[i]);
            }
        }
    }

    /// A line in a frame of its own, so that all of it is undone where it fails.
    function payToken(address token, address from, address to, uint256 amount) external {
        require(msg.sender == address(this), "for itself only");
        uint256 before = balanceOf(token, to);
        (bool called, ) = token.call(
            abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, amount)
        );
        require(called && balanceOf(token, to) == before + amount, "it did not arrive");
    }

    function payCoins(
        bytes32[] calldata refs,
        address[] calldata to,
        uint256[] calldata amounts
    ) external payable once returns (uint256 paid) {
        require(refs.length == to.length && to.length == amounts.length, "lengths differ");
        uint256 left = msg.value;
        for (uint256 i = 0; i < to.length; i++) {
            require(left >= amounts[i], "value too small");
            requireGas(COIN_GAS);
            (bool called, ) = to[i].call{value: amounts[i], gas: COIN_GAS}("");
            if (called) {
                left -= amounts[i];
                paid++;
                emit Paid(refs[i], to[i], amounts[i]);
            } else {
                emit Failed(refs[i], to[i], amounts[i]);
            }
        }
        if (left > 0) {
            (bool returned, ) = msg.sender.call{value: left}("");
            require(returned, "the caller does not take back what is left");
        }
    }

    function balanceOf(address token, address holder) private view returns (uint256) {
        (bool called, bytes memory answer) = token.staticcall(abi.encodeWithSignature("balanceOf(address)", holder));
        require(called && answer.length == 32, "no token");
        return abi.decode(answer, (uint256));
    }
}
